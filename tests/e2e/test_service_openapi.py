"""Random requests to every route of the OpenAPI document, by schemathesis: whatever comes in, nothing breaks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dpexplain.service.api import create_app
from services import running, write_project

schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    (folder / "models").mkdir()
    service = 'slot = 0.05\nrate = 10000000\nmodels = "models"'
    with running(write_project(folder, service=service, rows=60)) as found:
        found.member("ana", limit=4.0)
        found.member("vera", "viewer")
        yield found


SEED = 20


def check(case, answer):
    """No answer is a fault of ours, and every refusal has the one shape."""
    assert answer.status_code < 500, (case.method, case.formatted_path, case.body, answer.text)
    if answer.status_code >= 400:
        assert set(answer.json()["error"]) == {"kind", "message", "hint", "spent"}
        assert "Traceback" not in answer.text


@pytest.mark.long
def test_no_request_breaks_the_service(here):
    schema = schemathesis.openapi.from_dict(create_app(here.service).openapi())
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 25
    tried, real = Counter(), st.sampled_from([True, True, True, False])
    sketch = here.explained(here.tokens["ana"], {"request": "local-sketch", "method": "moments"}, epsilon=0.5)
    known = {"table": "people", "release": sketch["results"][0], "job": sketch["id"]}
    for operation in operations:

        @seed(SEED)
        @settings(max_examples=16, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(), who=st.sampled_from([here.curator, *here.tokens.values()]), real=real)
        def ask(case, who, real):
            if real and case.path_parameters:
                case.path_parameters |= {name: known[name] for name in case.path_parameters if name in known}
            answer = case.call(base_url=here.url, headers={"Authorization": f"Bearer {who}"}, timeout=60)
            tried[answer.status_code] += 1
            check(case, answer)

        ask()
    assert {200, 201, 402, 403, 404, 409, 422} <= set(tried), tried
    assert here.good("GET", "/health", token=None)["alive"]
