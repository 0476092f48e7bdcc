"""Models behind a server: the same answers, rows that fail alone, and servers that are slow, away or wrong."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import signal
import ssl
import threading
import time

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.data import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.models import frame_of
from dpexplain.models.kinds import http
from dpexplain.models.kinds.tensors import feed
from inference_server import SECRET, Behaviour, Broken, served, slow

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(0, 100, integer=True),
        "sex": dpx.Categorical(["F", "M"]),
        "income": dpx.Numeric(-1, 1),
    }
)
QUICK = {"timeout": 5.0, "retries": 2}


def risk(columns):
    return columns["age"] / 200 + 0.2 * (columns["sex"] == "F") + 0.1 * columns["income"] + 0.1


@pytest.fixture
def behaviour():
    return Behaviour(risk, {"age": "INT64", "sex": "BYTES", "income": "FP64"})


@pytest.fixture
def url(behaviour):
    with served(behaviour) as url:
        yield url


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(http, "PAUSE", 0.001)
    monkeypatch.delenv(http.TOKEN, raising=False)


def model(url, version="1", *, options=None, **more):
    told = {"output": (0, 1), "version": version, "options": {**QUICK, **(options or {})}, **more}
    return dpx.Model(url, **told)


def asked(predictor, domain=DOMAIN, size=300, seed=3, **changed):
    columns = PublicRandom(seed).rows(domain, size).columns
    for name, (place, value) in changed.items():
        columns[name][place] = value
    rows = Rows(domain, columns, size)
    return rows, predictor.predict_at(predictor.inputs(rows), {})


def truth(rows):
    named = {**rows.columns, "sex": np.array(["F", "M"])[rows["sex"]]}
    return risk(named)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_process_shares_no_connection(url, behaviour):
    """Two processes that read from one connection get each other's answers, which are about other rows."""
    predictor = model(url).checked(DOMAIN, rows=2_000)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # threads of the parent are not here: whoever waits for them is ended
        os._exit(sum(not np.allclose(a, truth(rows)) for rows, a in (asked(predictor, seed=i) for i in range(9))))
    assert all(np.allclose(a, truth(rows)) for rows, a in (asked(predictor, seed=9 + i) for i in range(9)))
    assert os.waitpid(child, 0)[1] == 0


def test_it_answers_as_the_server_does_with_texts_and_whole_numbers(url, behaviour):
    known = model(url)
    predictor = known.checked(DOMAIN, rows=2_000)
    rows, answers = asked(predictor)
    np.testing.assert_allclose(answers, truth(rows), rtol=0, atol=1e-15)
    assert set(behaviour.requests) == {256 // 8}, "every request has the same public number of rows"
    again = pickle.loads(pickle.dumps(predictor))
    np.testing.assert_array_equal(asked(again)[1], answers)


def test_a_matrix_and_single_precision(behaviour):
    line = Behaviour(lambda c: c["age"] / 200 + c["income"] / 4 + 0.3, {"age": "FP64", "income": "FP64"}, matrix=True)
    line.datatype = "FP32"
    domain = dpx.Domain({"age": DOMAIN["age"], "income": DOMAIN["income"]})
    with served(line) as url:
        predictor = model(url).checked(domain)
        rows, answers = asked(predictor, domain)
        np.testing.assert_allclose(answers, rows["age"] / 200 + rows["income"] / 4 + 0.3, atol=1e-6)
        assert predictor.precision == 1e-6
        with pytest.raises(dpx.errors.ModelError, match="takes 2 columns, and 3 are declared"):
            model(url, as_array=False).checked(dpx.Domain({**domain, "more": dpx.Numeric(0, 1)}))


def test_a_probability_for_each_class(url, behaviour):
    behaviour.score = lambda c: np.column_stack([1 - risk(c), risk(c)])
    predictor = model(url, classes=["well", "sick"], label="sick").checked(DOMAIN)
    rows, answers = asked(predictor)
    np.testing.assert_allclose(answers, truth(rows), atol=1e-15)
    with pytest.raises(dpx.errors.ModelError, match=r"shape \(4096, 2\)"):
        model(url).checked(DOMAIN)


def test_connections_work_at_the_same_time(url, behaviour):
    behaviour.before = slow(0.02)
    model(url, options={"connections": 4}, block=256).checked(DOMAIN)
    assert behaviour.most_together == 4


def test_a_release(url, behaviour, make_table):
    people = pd.DataFrame({"age": np.arange(500) % 101, "sex": "F", "income": 0.5})
    table = make_table(people, domain=DOMAIN, exact=True)
    behaviour.score = lambda c: c["age"] / 200
    curve = dpx.partial_dependence(table, model(url), "age", epsilon=1, grid={"age": [0, 50, 100]}, rug=False)
    np.testing.assert_allclose(curve.raw, [0, 0.25, 0.5], atol=1e-6)


def poisoned(columns):
    """The server fails on some rows, which no synthetic row is like."""
    if (columns["income"] == 0.123456789).any():
        raise ValueError(SECRET)


def breaks(columns):
    raise Broken


def broken_off(columns):
    if (columns["income"] == 0.123456789).any():
        raise Broken


@pytest.mark.parametrize("failing", [poisoned, broken_off], ids=["status 500", "connection broken off"])
def test_a_row_on_which_the_server_fails_fails_alone(url, behaviour, failing):
    predictor = model(url, options={"retries": 1}, block=64).checked(DOMAIN)
    behaviour.before = failing
    rows, answers = asked(predictor, size=100, income=([7, 70], 0.123456789))
    failed = rows["income"] == 0.123456789
    assert np.isnan(answers[failed]).all()
    np.testing.assert_allclose(answers[~failed], truth(rows)[~failed], atol=1e-15)


def test_what_comes_behind_an_answer_is_not_read_as_the_next_one(url, behaviour):
    """Else what a server sends for one row would be read as the answers for others, from then on."""
    predictor = model(url, options={"connections": 1}, block=16).checked(DOMAIN)
    output = {"name": "score", "datatype": "FP64", "shape": [16], "data": [0.5] * 16}
    other = json.dumps({"model_name": "risk", "outputs": [output]}).encode()
    behaviour.behind = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(other) + other
    asked(predictor, size=16)
    time.sleep(0.3)
    behaviour.behind = b""
    rows, answers = asked(predictor, size=16, seed=4)
    np.testing.assert_allclose(answers, truth(rows), atol=1e-15)


@pytest.mark.long
def test_a_row_on_which_the_server_is_slow_fails_alone(url, behaviour):
    predictor = model(url, options={"timeout": 0.25, "retries": 0}, block=16).checked(DOMAIN)
    behaviour.before = lambda columns: slow(0.6)(columns) if (columns["income"] == 0.123456789).any() else None
    _, answers = asked(predictor, size=16, income=(7, 0.123456789))
    assert np.flatnonzero(np.isnan(answers)).tolist() == [7]


def test_a_release_goes_on_when_rows_fail_and_quotes_nothing(url, behaviour, make_table, capfd):
    people = pd.DataFrame({"age": 10, "sex": "F", "income": [0.123456789] * 3 + [0.5] * 97})
    table = make_table(people, domain=DOMAIN, exact=True)
    known = model(url)
    table.predictor(known)
    behaviour.before = poisoned
    curve = dpx.partial_dependence(table, known, "age", epsilon=1, grid={"age": [0, 100]}, rug=False, smooth=False)
    expected = [(97 * value + 3 * 0.5) / 100 for value in (0.35, 0.85)]  # 0.5 is the middle of the output range
    np.testing.assert_allclose(curve.raw, expected, atol=1e-6)
    assert SECRET not in "".join(capfd.readouterr())


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again(url, behaviour, status):
    known = model(url)
    behaviour.statuses = [status] * 2
    known.checked(DOMAIN, rows=2_000)
    behaviour.statuses = [status] * 100
    with pytest.raises(dpx.errors.ModelError, match=f"status {status}") as error:
        model(url, options={"retries": 1}).checked(DOMAIN)
    assert SECRET not in str(error.value)


def test_other_failures_are_not_sent_again(url, behaviour):
    known = model(url, options={"connections": 1})
    behaviour.statuses = [400]
    with pytest.raises(dpx.errors.ModelError, match="status 400"):
        known.checked(DOMAIN, rows=2_000)
    assert behaviour.requests == []


def test_a_server_that_goes_away_is_left_alone_for_a_while(behaviour):
    with served(behaviour) as url:
        predictor = model(url, options={"retries": 0}).checked(DOMAIN, rows=2_000)
        behaviour.before = breaks  # of connections that are open still
    _, answers = asked(predictor)
    assert np.isnan(answers).all()
    assert predictor._call.args[0]._live_until > 0


def shorter(answer):
    answer["outputs"][0]["data"].pop()
    answer["outputs"][0]["shape"][0] -= 1
    return answer


def wrong_shape(answer):
    answer["outputs"][0]["shape"][0] += 1
    return answer


def several(answer):
    return {"outputs": answer["outputs"] * 2}


def missing(answer):
    answer["outputs"][0]["data"][0] = float("nan")
    return answer


@pytest.mark.parametrize(
    ("rewrite", "message"),
    [
        (shorter, "another number of rows or another shape"),
        (wrong_shape, "another number of rows or another shape"),
        (several, "several outputs"),
        (missing, "NaN or infinite"),
        (lambda answer: {"outputs": []}, "not understood"),
        (lambda answer: [SECRET], "not understood"),
        (lambda answer: SECRET.encode(), "no JSON"),
        (lambda answer: {"outputs": [{**answer["outputs"][0], "datatype": "COMPLEX"}]}, "not understood"),
        (lambda answer: {**answer, "much": "x" * 3_000_000}, "larger than the option 'max_bytes'"),
    ],
)
def test_answers_that_are_wrong(url, behaviour, rewrite, message):
    known = model(url, options={"max_bytes": 2_000_000})
    behaviour.rewrite = rewrite
    with pytest.raises(dpx.errors.ModelError, match=message) as error:
        known.checked(DOMAIN, rows=2_000)
    assert SECRET not in str(error.value)


def test_requests_that_are_too_large(url):
    with pytest.raises(dpx.errors.ModelError, match="more than the option 'max_bytes'"):
        model(url, options={"max_bytes": 1_000, "connections": 1}).checked(DOMAIN)


def test_whether_a_request_is_too_large_does_not_depend_on_its_rows(url):
    """Before, rows with a long word failed together: one more of them made 28 others fail, in requests that were as
    large as those about synthetic rows.
    """
    words = dpx.Categorical(["F", *map(str, range(40)), "M" * 200])
    domain = dpx.Domain({**DOMAIN, "sex": words})
    known = model(url, block=256, options={"connections": 1})
    adapter, rows = known.original, PublicRandom(0).rows(domain, 256)
    largest = {
        "age": np.full(256, 100.0),
        "sex": np.full(256, 41, np.int32),
        "income": np.full(256, -1.2345678901234567e-5),
    }
    frames = [frame_of(domain, list(domain), Rows(domain, columns, 256)) for columns in (rows.columns, largest)]
    bounds = {adapter._most_bytes(frame, feed(adapter.tensors, frame)) for frame in frames}
    assert len(bounds) == 1
    sizes = [len(adapter._body(feed(adapter.tensors, frame))) for frame in frames]
    assert sizes[0] < sizes[1] <= min(bounds)
    with pytest.raises(dpx.errors.ModelError, match="more than the option 'max_bytes'"):
        model(url, block=256, options={"connections": 1, "max_bytes": sizes[0] + 5_000}).checked(domain)
    found = asked(model(url, block=256, options={"connections": 1, "max_bytes": min(bounds)}).checked(domain), domain)[
        1
    ]
    assert np.isfinite(found).all()


def test_a_slow_server(url, behaviour):
    known = model(url, options={"timeout": 0.05, "retries": 1, "connections": 1}, block=1)
    behaviour.before = slow(0.3)
    with pytest.raises(dpx.errors.ModelError, match="does not answer in time"):
        known.checked(DOMAIN)


def test_no_server():
    with pytest.raises(dpx.errors.ModelError, match="does not answer in time, or not at all") as error:
        model("http://127.0.0.1:9/v2/models/risk")
    assert "127.0.0.1:9" in error.value.hint


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"inputs": []}, "not understood|say which"),
        ({"inputs": [{"name": SECRET * 3, "datatype": "FP64", "shape": [-1, 1]}]}, "not understood"),
        ({"inputs": [{"name": "a", "datatype": "FP128", "shape": [-1, 1]}]}, "not understood"),
        ({"inputs": [{"name": "a", "datatype": "FP64", "shape": [-1, 2, 2]}]}, "3 dimensions"),
        ({"outputs": [{"name": "a"}, {"name": "b"}]}, "say which output"),
        (
            {"inputs": [{"name": n, "datatype": "FP64", "shape": [-1, 1]} for n in ("age", "weight")]},
            "does not declare: 'weight'",
        ),
    ],
)
def test_a_server_that_describes_another_model(url, behaviour, metadata, message):
    behaviour.metadata = metadata
    with pytest.raises(dpx.errors.ModelError, match=message) as error:
        model(url).checked(DOMAIN)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"retries": -1}, {"connections": 0}, {"max_bytes": 1}, {"timeout": "1"}, {"tries": 1}]
)
def test_options_that_make_no_sense(url, options):
    with pytest.raises(dpx.errors.ModelError, match="option"):
        dpx.Model(url, output=(0, 1), options=options)


def test_a_model_that_changed_on_the_server_is_refused(url, behaviour, make_table):
    people = pd.DataFrame({"age": [10, 20], "sex": "F", "income": 0.5})
    table = make_table(people, domain=DOMAIN)
    table.predictor(model(url))
    behaviour.score = lambda c: 1 - risk(c)
    with pytest.raises(dpx.errors.ModelError, match="gives other answers"):
        table.predictor(model(url))


def test_a_batch_statistic_on_the_server_is_found(url, behaviour):
    behaviour.score = lambda c: risk(c) - 0.1 * np.mean(c["age"]) / 100
    with pytest.raises(dpx.errors.ModelError, match="not always the same"):
        model(url).checked(DOMAIN)


def test_the_token_comes_from_the_environment(url, behaviour, monkeypatch):
    monkeypatch.setenv(http.TOKEN, "abc")
    model(url).checked(DOMAIN)
    assert behaviour.tokens == {"Bearer abc"}
    with pytest.raises(dpx.errors.ModelError, match="no address of a model"):
        model(url.replace("http://", "http://user:word@"))


def certificate(folder, name):
    """A certificate for this name that nobody has signed, and its key, in one file."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{name}.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def test_certificates_are_checked(behaviour, tmp_path, monkeypatch):
    elsewhere, here = certificate(tmp_path, "elsewhere.test"), certificate(tmp_path, "localhost")
    for path, right in ((elsewhere, False), (here, True)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        with served(behaviour, context) as url:
            url = url.replace("127.0.0.1", "localhost")
            monkeypatch.delenv("SSL_CERT_FILE", raising=False)
            with pytest.raises(dpx.errors.ModelError, match="certificate does not match"):
                model(url)  # nobody known has signed it
            monkeypatch.setenv("SSL_CERT_FILE", str(path))
            if right:
                model(url).checked(DOMAIN)
                continue
            with pytest.raises(dpx.errors.ModelError, match="certificate does not match"):
                model(url)


def test_threads_may_ask_at_once(url):
    """Each has a connection of its own, so answers are not mixed up."""
    predictor = model(url).checked(DOMAIN, rows=2_000)
    assert predictor.thread_safe
    right = []

    def ask(seed):
        rows, answers = asked(predictor, seed=seed)
        right.append(np.array_equal(answers, truth(rows)))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4
