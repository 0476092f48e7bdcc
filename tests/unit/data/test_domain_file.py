"""The domain file: an exact round trip, drafts that do not run, and errors that say where and what."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.data.domain_file import (
    MOST_CATEGORIES,
    Domain,
    domain_text,
    draft_domain,
    parse_domain,
)

HEAD = "dpexplain_domain: 1\nreviewed_by: Ada\npeeked: false\n"


def declared(column: str) -> str:
    return f"{HEAD}columns:\n  age: {column}\n"


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [17, 33, 90],
            "income": [0.31, np.nan, 2.2],
            "sex": ["F", "M", None],
            "mixed": pd.Series([1, "x", 2.5], dtype=object),
            "smoker": [True, False, True],
            "seen": pd.to_datetime(["2020-01-01"] * 3),
        }
    )


class TestRoundTrip:
    def test_a_file_gives_the_same_domain_back(self, tmp_path):
        domain = dpx.Domain(
            {
                "age": dpx.Numeric(17, 90, integer=True, missing=40),
                "x y: #": dpx.Numeric(-1e-7, 1e300),
                "answer": dpx.Categorical(["no", "Yes", "012", "a: b # c", "???", "", "null", 1, 2.5, "1e3"], "012"),
                "flag": dpx.Categorical([False, True]),
            },
            reviewed_by="Zoë: Müller",
            peeked=True,
        )
        domain.save(tmp_path / "domain.yaml")
        again = Domain.load(tmp_path / "domain.yaml")
        assert again.to_json() == domain.to_json()
        assert again.digest == domain.digest
        assert (again.reviewed_by, again.peeked) == ("Zoë: Müller", True)
        kinds = [type(value) for value in again["answer"].categories]
        assert kinds == [str] * 7 + [int, float, str]

    @given(
        names=st.lists(st.text(min_size=1), min_size=1, max_size=3, unique=True),
        values=st.lists(
            st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            min_size=1,
            max_size=5,
            unique=True,
        ),
        low=st.floats(-1e300, 1e300),
        width=st.floats(1e-3, 1e300),
    )
    def test_any_names_numbers_and_texts(self, names, values, low, width):
        columns = dict.fromkeys(names, dpx.Categorical(values))
        if low + width > low:
            columns["number"] = dpx.Numeric(low, low + width)
        try:
            text = domain_text(dpx.Domain(columns))
            text.encode("utf-8")
        except UnicodeEncodeError:
            return  # half a character, which no file can hold
        again = parse_domain(text)
        assert again.to_json() == dpx.Domain(columns).to_json()
        assert again.digest == dpx.Domain(columns).digest

    def test_an_unreviewed_file_loads_but_no_table_opens(self, tmp_path):
        domain = parse_domain(domain_text(dpx.Domain({"age": dpx.Numeric(0, 120)}, reviewed_by=None)))
        assert domain.reviewed_by is None
        with pytest.raises(dpx.errors.DomainError, match="no person has reviewed"):
            dpx.PrivateTable(
                pd.DataFrame({"age": [1, 2]}), domain=domain, budget=dpx.Budget(1), relation="replace-one",
                ledger=f"sqlite:///{tmp_path}/budget.db", name="t",
            )  # fmt: skip
        assert not (tmp_path / "budget.db").exists()

    def test_a_blank_name_is_no_review(self):
        assert parse_domain(declared("{type: numeric, low: 0, high: 1}").replace("Ada", '"  "')).reviewed_by is None


class TestWordsAndNumbers:
    """YAML 1.1 would read these as truth values, octal numbers and dates."""

    def test_lists_of_categories_read_as_they_look(self):
        values = "[no, Yes, on, 012, 2026-11-01, 1_000, 10, 1.5, 1e3, .inf]"
        domain = parse_domain(declared(f"{{type: categorical, values: {values}}}"))
        assert domain["age"].categories == ("no", "Yes", "on", "012", "2026-11-01", "1_000", 10, 1.5, 1000.0, ".inf")

    def test_missing_values_may_stay_missing(self):
        domain = parse_domain(declared("{type: numeric, low: 0, high: 9, integer: true, missing: nan}"))
        assert domain["age"] == dpx.Numeric(0, 9, integer=True, missing="nan")
        assert "missing: nan" in domain_text(domain)
        assert parse_domain(domain_text(domain)).digest == domain.digest
        with pytest.raises(dpx.errors.DomainError, match='missing \\(unless it is "nan"\\) must be a finite number'):
            parse_domain(declared("{type: numeric, low: 0, high: 9, missing: unknown}"))

    def test_quotes_make_texts(self):
        domain = parse_domain(declared("""{type: categorical, values: ["1", 'true', "???"]}"""))
        assert domain["age"].categories == ("1", "true", "???")

    def test_block_style_is_the_same(self):
        text = HEAD + "columns:\n  age:\n    type: numeric\n    low: 0\n    high: 120\n    integer: true\n"
        assert parse_domain(text)["age"] == dpx.Numeric(0, 120, integer=True)


class TestDraft:
    def test_names_and_types_only(self, frame):
        text = draft_domain(frame)
        assert "age: {type: numeric, low: ???, high: ???, integer: true, missing: ???}" in text
        assert "income: {type: numeric, low: ???, high: ???, integer: false, missing: ???}" in text
        assert "sex: {type: categorical, values: ???, missing: ???}" in text
        assert "smoker: {type: categorical, values: [false, true], missing: ???}" in text
        assert "seen: {type: date, low: ???, high: ???, step: day, missing: ???}" in text
        assert "reviewed_by: null" in text
        assert "peeked: false" in text
        for value in ("17", "2.2", "F,", "2020"):
            assert value not in text.split("columns:")[1]

    def test_a_draft_does_not_load_even_when_signed(self, frame):
        signed = draft_domain(frame).replace("reviewed_by: null", "reviewed_by: Ada")
        with pytest.raises(dpx.errors.DomainError, match=r"'age' still has \?\?\? for low, high, missing") as caught:
            parse_domain(signed)
        assert "smallest value" in caught.value.hint

    def test_a_csv_file_has_names_and_no_types(self, frame, tmp_path):
        frame.to_csv(tmp_path / "t.csv", index=False)
        text = draft_domain(tmp_path / "t.csv")
        assert "age: {type: ???}" in text
        with pytest.raises(dpx.errors.DomainError, match=r"\?\?\? for type"):
            parse_domain(text)

    def test_peek_suggests_and_marks_every_line(self, frame):
        text = draft_domain(frame, peek=True)
        lines = {line.split(":")[0].strip(): line for line in text.split("columns:\n")[1].splitlines()}
        assert "{type: numeric, low: 10, high: 90, integer: true, missing: null}" in lines["age"]
        assert "{type: numeric, low: 0, high: 3, integer: false, missing: null}" in lines["income"]
        assert "values: [F, M]" in lines["sex"]
        assert "values: [1, 2.5, x]" in lines["mixed"]
        for name in ("age", "income", "sex", "mixed"):
            assert "suggested by looking at the data: this reveals it" in lines[name]
        domain = parse_domain(text)
        assert domain.peeked
        assert domain.reviewed_by is None

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_peek_into_files(self, frame, tmp_path, suffix):
        path = tmp_path / f"t.{suffix}"
        few = frame[["age", "income", "sex"]]
        few.to_csv(path, index=False) if suffix == "csv" else few.to_parquet(path)
        domain = parse_domain(draft_domain(path, peek=True))
        assert domain["age"] == dpx.Numeric(10, 90, integer=True)
        assert domain["income"] == dpx.Numeric(0, 3)
        assert domain["sex"] == dpx.Categorical(["F", "M"])

    def test_peek_sees_through_words_for_missing_values_and_keeps_leading_zeros(self, tmp_path):
        lines = ["age,zip,grade,empty", "30,01234,a,NA", "NA,01235,n/a,NA", "31.5,99999,b,", "n/a,00001,NA,"]
        (tmp_path / "t.csv").write_text("\n".join(lines))
        text = draft_domain(tmp_path / "t.csv", peek=True)
        assert "age: {type: numeric, low: 30, high: 32, integer: false, missing: null}" in text
        assert 'zip: {type: categorical, values: ["00001", "01234", "01235", "99999"], missing: null}' in text
        assert "grade: {type: categorical, values: [a, b, NA], missing: NA}" in text
        assert "empty: {type: ???}" in text

    @pytest.mark.parametrize(
        ("entry", "column"),
        [
            ("{low: 0, high: 9}", dpx.Numeric(0, 9)),
            ("{type: ???, low: 0, high: 9, integer: true}", dpx.Numeric(0, 9, integer=True)),
            ("{values: [a, b]}", dpx.Categorical(["a", "b"])),
            ("{missing: a, values: [a, b]}", dpx.Categorical(["a", "b"], missing="a")),
        ],
    )
    def test_the_type_follows_from_what_is_declared(self, entry, column):
        assert parse_domain(declared(entry))["age"] == column

    def test_a_text_column_with_many_values_is_left_out(self):
        numbers = range(MOST_CATEGORIES + 1)
        frame = pd.DataFrame({"name": [f"person {i}" for i in numbers], "age": numbers})
        text = draft_domain(frame, peek=True)
        assert "# name: " in text
        assert "probably an identifier" in text
        assert "person" not in text.split("columns:")[1]
        assert list(parse_domain(text)) == ["age"]
        few = draft_domain(frame.iloc[:MOST_CATEGORIES], peek=True)
        assert len(parse_domain(few)["name"].categories) == MOST_CATEGORIES

    def test_odd_columns(self):
        frame = pd.DataFrame(
            {
                "same": [5, 5],
                "nothing": [None, None],
                "infinite": [math.inf, 1.0],
                "lists": pd.Series([[1], [2]], dtype=object),
                "kind": pd.Categorical(["b", "a"]),
            }
        )
        text = draft_domain(frame, peek=True)
        assert "same: {type: numeric, low: 5, high: 6, integer: true" in text
        assert "nothing: {type: ???}" in text
        assert "# lists: " in text
        assert "values: [a, b]" in text
        assert "infinite: {type: numeric, low: 1, high: 2" in text


class TestBadFiles:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: [", "line 1, column 5"),
            ("- 1\n", "not a domain file"),
            ("", "not a domain file"),
            (HEAD, "no entry: columns"),
            (HEAD + "columns: {}\n", "declares no columns"),
            (HEAD + "columns: {}\ncolumn: {}\n", "unknown entry: column"),
            (declared("{type: numeric, low: 0, high: 1}").replace(": 1\n", ": 2\n", 1), "format 2"),
            (declared("{type: numeric, low: 0, high: 1}").replace(": 1\n", ": true\n", 1), "format True"),
            (declared("{type: numeric, low: 0, high: 1}").replace("false", "maybe"), "peeked must be"),
            (declared("{type: numeric, low: 0, high: 1}").replace("Ada", "[Ada]"), "reviewed_by must be"),
            (declared("{type: numeric, low: 0, high: 1}") + "  age: {}\n", "line 6, column 3: 'age' appears twice"),
            (declared("{type: numeric, low: 0, low: 1, high: 2}"), "'low' appears twice"),
            (declared("{type: numeric, low: 0}"), "column 'age' has no high"),
            (declared("{missing: 1}"), "has no type"),
            (declared("{type: number, low: 0, high: 1}"), "type"),
            (declared("{type: categorical}"), "has no values"),
            (declared("{type: categorical, values: []}"), "at least one"),
            (declared("{type: categorical, values: Female}"), "must be a list"),
            (declared("{type: categorical, values: [[a]]}"), "text or a finite number"),
            (declared("{type: categorical, values: [a, a]}"), "twice"),
            (declared("{type: categorical, values: [a, ???]}"), r"\?\?\?"),
            (declared("{type: numeric, low: 1, high: 0}"), "reversed"),
            (declared("{type: numeric, low: 0, high: .inf}"), "finite"),
            (declared("{type: numeric, low: 0, high: 1" + "0" * 400 + "}"), "too large|finite"),
            (declared("{type: numeric, low: 0, high: 1" + "0" * 5000 + "}"), "too large|finite"),
            (declared("{type: numeric, low: 0, high: 1, integer: 1}"), "integer must be"),
            (declared("{type: numeric, low: 0, high: 1, missing: 2}"), "outside"),
            (declared("{type: numeric, low: 0, high: 1, hgih: 2}"), "unknown setting: hgih"),
            (declared("numeric"), "not declared"),
            (declared("???"), "not declared"),
            (HEAD + "columns:\n  1: {type: numeric, low: 0, high: 1}\n", "not a text"),
            (HEAD + "columns:\n  ? [a]\n  : {type: numeric}\n", "must be a text"),
            (declared("!!python/object/apply:os.getcwd []"), "not readable"),
            ("a\0b", "not readable"),
        ],
    )  # fmt: skip
    def test_a_wrong_file_is_refused_with_its_place(self, text, message):
        with pytest.raises(dpx.errors.DomainError, match=message) as caught:
            parse_domain(text, "domain.yaml")
        assert "domain.yaml" in caught.value.message

    def test_a_file_that_is_not_there_or_not_text(self, tmp_path):
        with pytest.raises(dpx.errors.DomainError, match="cannot be read"):
            Domain.load(tmp_path / "none.yaml")
        (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(dpx.errors.DomainError, match="cannot be read"):
            Domain.load(tmp_path / "bad.yaml")


@pytest.mark.parametrize(
    "line",
    [
        "a: !!int ''",
        "a: !!bool zz",
        "a: !!timestamp foo",
        "a: !!python/object/apply:os.system [ls]",
        "a: &x [1]\n  b: *x",
    ],
)
def test_tags_and_aliases_are_not_used(tmp_path, line):
    """They can run code, raise odd errors, or make a small file enormous."""
    path = tmp_path / "domain.yaml"
    path.write_text(f"dpexplain_domain: 1\nreviewed_by: Ada\npeeked: false\ncolumns:\n  {line}\n")
    with pytest.raises(dpx.errors.DomainError, match="not readable|tags and aliases"):
        dpx.Domain.load(path)
