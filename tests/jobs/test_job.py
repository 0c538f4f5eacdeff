"""The job file: what it says is what is read, and what it cannot say is refused in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from optensemble.exceptions import FileError, InputError
from optensemble.jobs.job import OPTIONS, Job, read_job
from tests.jobs.worlds import job_text, write_job


def refused(path: Path, error: type[Exception] = InputError) -> str:
    """Return the line that a file is refused with; it names the file."""
    with pytest.raises(error) as caught:
        read_job(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith((".", "?"))
    return message


# Keys


def test_every_key_is_read(tmp_path: Path) -> None:
    data = {
        "fit": ["one.csv", "two.csv"],
        "labels": ["north", "south"],
        "id": "day",
        "time": "date",
        "subgroups": ["region", "weekday"],
        "groups": "customer",
    }
    ensemble = {"kind": "black_box", "sense": "min", "seed": 3, "alpha": 0.5}
    path = write_job(
        tmp_path,
        data=data,
        models={"a": ["p", "q"], "b": None},
        policies={"plan": "plan_*"},
        feasible={"kind": "box", "upper": 2},
        ensemble=ensemble,
    )
    assert read_job(path) == Job(
        path=path,
        fit=("one.csv", "two.csv"),
        labels=("north", "south"),
        models={"a": ("p", "q")},
        policies={"plan": "plan_*"},
        feasible={"kind": "box", "upper": 2},
        ensemble=ensemble,
        id="day",
        time="date",
        groups="customer",
        subgroups=("region", "weekday"),
    )


def test_what_is_left_out_has_honest_defaults(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, policies=None, ensemble=None))
    assert (job.kind, job.sense, job.ensemble, job.policies) == ("decision", "max", {}, {})
    assert (job.id, job.time, job.groups, job.subgroups) == (None, None, None, ())
    assert job.folder == tmp_path


def test_the_terms_of_reports_are_read(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, report={"title": "Battery, Leipzig", "unit": "day"}))
    assert vars(job.report) == {"title": "Battery, Leipzig", "unit": "day", "currency": ""}
    assert vars(read_job(write_job(tmp_path)).report) == {"title": "", "unit": "row", "currency": ""}


def test_one_name_is_a_list_of_one(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, data={"fit": "x.csv", "labels": "demand", "subgroups": "region"}))
    assert (job.fit, job.labels, job.subgroups) == (("x.csv",), ("demand",), ("region",))


@pytest.mark.parametrize("section", ["models", "policies"])
def test_models_or_policies_alone_will_do(section: str, tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, **{section: None}))
    assert getattr(job, section) == {}
    assert job.models or job.policies


@pytest.mark.parametrize(
    ("kind", "option"), [(kind, option) for kind, options in OPTIONS.items() for option in options]
)
def test_every_option_of_a_kind_is_known(kind: str, option: str, tmp_path: Path) -> None:
    value = {"kind": kind, "sense": "min", "on_infeasible": "raise"}.get(option, 1)
    assert read_job(write_job(tmp_path, ensemble={"kind": kind, option: value})).ensemble[option] == value


def test_names_in_any_script_are_accepted(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, models={"Händler 1": "Preis_é_*"}))
    assert job.models["Händler 1"] == "Preis_é_*"


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = tmp_path / "job.toml"
    path.write_text(job_text(), encoding="utf-8-sig")
    assert read_job(path).labels == "y_*"


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(job_text().replace("\n", "\r\n").encode())
    assert read_job(path).labels == "y_*"


# Errors


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no file" in refused(tmp_path / "no.toml", FileError)


def test_a_folder_is_no_job_file(tmp_path: Path) -> None:
    assert "Is a directory" in refused(tmp_path, FileError)


def test_a_job_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xff\xfe\x00PAR1")
    assert "not text in UTF-8" in refused(path)


@pytest.mark.parametrize(
    ("line", "text"),
    [(2, "[data]\nfit = history.csv\n"), (4, '[data]\nfit = "x"\nlabels = "y_*"\n[models\n'), (3, "[data]\n\nfit\n")],
)
def test_what_is_not_toml_is_told_with_the_line(line: int, text: str, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(text)
    assert re.search(rf"is not valid TOML: .*\(at line {line}, column \d+\)", refused(path))


def test_a_key_that_is_there_twice_is_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(job_text() + "seed = 1\nseed = 2\n")
    assert "is not valid TOML" in refused(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modles": {"x": "x_*"}}, "section 'modles' is not known. Did you mean 'models'?"),
        ({"zebra": {}}, "section 'zebra' is not known. Known are data, models, policies, feasible, ensemble, "),
        ({"data": {"lables": "y_*"}}, "[data] 'lables' is not known. Did you mean 'labels'?"),
        ({"data": {"group": "region"}}, "[data] 'group' is not known. Did you mean 'groups'?"),
        ({"data": {"zebra": 1}}, "[data] 'zebra' is not known. Known are fit, labels, id, time, groups, subgroups, "),
        ({"ensemble": {"sede": 1}}, "[ensemble] of kind 'decision': 'sede' is not known. Did you mean 'seed'?"),
        ({"ensemble": {"alpha": 1}}, "[ensemble] of kind 'decision': 'alpha' is not known."),
        (
            {"ensemble": {"kind": "white_box", "conditional": True}},
            "[ensemble] of kind 'white_box': 'conditional' is not known.",
        ),
        ({"ensemble": {"kind": "white-box"}}, "kind must be one of decision, white_box, black_box; got 'white-box'."),
        ({"ensemble": {"kind": "white-box"}}, "Did you mean 'white_box'?"),
        ({"ensemble": {"kind": ["decision"]}}, "kind must be one of decision, white_box, black_box; got ['decision']"),
        ({"ensemble": {"sense": "maximise"}}, 'sense must be "max" for payoffs or "min" for costs; got \'maximise\''),
        ({"report": {"titel": "A"}}, "[report] 'titel' is not known. Did you mean 'title'?"),
        ({"report": {"zebra": "A"}}, "[report] 'zebra' is not known. Known are title, unit, currency."),
        ({"report": {"unit": 3}}, "[report] unit must be text; got 3. Put it in quotes."),
        ({"ensemble": {"sense": 1}}, 'sense must be "max" for payoffs or "min" for costs; got 1'),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in refused(write_job(tmp_path, **changes))


@pytest.mark.parametrize("section", ["data", "feasible"])
def test_a_section_that_is_missing_is_named(section: str, tmp_path: Path) -> None:
    assert f"has no section [{section}]" in refused(write_job(tmp_path, **{section: None}))


@pytest.mark.parametrize("key", ["fit", "labels"])
def test_a_key_that_is_missing_is_named(key: str, tmp_path: Path) -> None:
    assert f"[data] lacks {key!r}. Add, for example, {key} = " in refused(write_job(tmp_path, data={key: None}))


@pytest.mark.parametrize("section", ["data", "models", "policies", "feasible", "ensemble"])
def test_a_section_is_no_value(section: str, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f"{section} = 3\n" + job_text(**{section: None}))
    assert f"{section!r} must be a section; got 3. Write [{section}] on its own line." in refused(path)


def test_without_members_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert "names no models or policies" in refused(write_job(tmp_path, models=None, policies=None))
    empty = {"a": None, "b": None, "plan": None}
    assert "names no models or policies" in refused(write_job(tmp_path, models=empty, policies=empty))


def test_a_name_is_a_model_or_a_policy(tmp_path: Path) -> None:
    assert "'a' is a model and a policy" in refused(write_job(tmp_path, policies={"a": "plan_*"}))


WRONG_NAMES: list[Any] = [3, 1.5, True, "", [], [""], ["y_0", 1], [["y_0"]]]


@pytest.mark.parametrize("value", WRONG_NAMES, ids=repr)
@pytest.mark.parametrize(
    ("section", "key", "where"),
    [("data", "labels", "[data] labels"), ("models", "a", "[models] a"), ("policies", "plan", "[policies] plan")],
)
def test_columns_are_a_pattern_or_a_list(section: str, key: str, where: str, value: Any, tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, **{section: {key: value}}))
    assert f'{where} must be a pattern such as "y_*" or a list of columns; got {value!r}' in message


def test_a_column_is_named_once(tmp_path: Path) -> None:
    assert "[models] a names 'p' twice" in refused(write_job(tmp_path, models={"a": ["p", "q", "p"]}))
    assert "[data] labels names 'p' twice" in refused(write_job(tmp_path, data={"labels": ["p", "p"]}))


@pytest.mark.parametrize("value", [3, True, "", [1], [""], [["x"]]], ids=repr)
@pytest.mark.parametrize("key", ["fit", "subgroups"])
def test_files_and_subgroups_are_text(key: str, value: Any, tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, data={key: value}))
    assert f"[data] {key} must be text, or a list of texts; got {value!r}" in message


@pytest.mark.parametrize("key", ["fit", "subgroups"])
def test_files_and_subgroups_are_named_once(key: str, tmp_path: Path) -> None:
    assert f"[data] {key} names 'x' twice" in refused(write_job(tmp_path, data={key: ["x", "y", "x"]}))


def test_a_list_of_no_files_is_refused(tmp_path: Path) -> None:
    assert "fit" in refused(write_job(tmp_path, data={"fit": []}))


@pytest.mark.parametrize("value", [3, True, "", ["day"]], ids=repr)
@pytest.mark.parametrize("key", ["id", "time", "groups", "weight"])
def test_single_columns_are_one_name(key: str, value: Any, tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, data={key: value, "subgroups": "region"}))
    assert f"[data] {key} must be " in message
    assert "one column" in message
    assert f"got {value!r}" in message


# Weights, labels that are missing, decisions off by rounding


def test_weights_and_missing_labels_are_read(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, data={"weight": "days", "missing_labels": "raise"}))
    assert (job.weight, job.missing_labels) == ("days", "raise")
    job = read_job(write_job(tmp_path))
    assert (job.weight, job.missing_labels) == (None, "drop")


@pytest.mark.parametrize("value", ["dorp", 1, True, [], ""], ids=repr)
def test_missing_labels_are_dropped_or_an_error(value: Any, tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, data={"missing_labels": value}))
    assert f"[data] missing_labels must be 'drop' or 'raise'; got {value!r}." in message
    assert ("Did you mean 'drop'?" in message) == (value == "dorp")


@pytest.mark.parametrize("value", ["projct", 1, False], ids=repr)
def test_infeasible_decisions_are_projected_or_an_error(value: Any, tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, ensemble={"on_infeasible": value}))
    assert f"[ensemble] on_infeasible must be 'project' or 'raise'; got {value!r}." in message


@pytest.mark.parametrize("value", ["small", -0.1, True, [0.1]], ids=repr)
def test_a_tolerance_is_a_number(value: Any, tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, ensemble={"tolerance": value}))
    assert (
        f"[ensemble] tolerance must be a number, 0 or more, in the units of the feasible set; got {value!r}." in message
    )


def test_a_tolerance_is_finite_and_for_policies(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    path.write_text(path.read_text().replace("[ensemble]", "[ensemble]\ntolerance = nan"))
    assert "tolerance must be a number" in refused(path)
    assert "'tolerance' is not known" in refused(write_job(tmp_path, ensemble={"kind": "white_box", "tolerance": 1}))


# Words of earlier versions


@pytest.mark.parametrize(
    ("data", "groups", "subgroups", "advice"),
    [
        ({"clusters": "customer"}, "customer", (), ['groups = "customer"']),
        ({"clusters": "customer", "subgroups": "region"}, "customer", ("region",), ['groups = "customer"']),
        ({"groups": ["region", "day"]}, None, ("region", "day"), ['subgroups = ["region", "day"]']),
        ({"groups": ["region"]}, None, ("region",), ['subgroups = ["region"]']),
        (
            {"groups": "region", "clusters": "customer"},
            "customer",
            ("region",),
            ['subgroups = "region"', 'groups = "customer"'],
        ),
    ],
    ids=str,
)
def test_files_of_earlier_versions_are_read_as_they_were_meant(
    data: dict[str, Any], groups: str | None, subgroups: tuple[str, ...], advice: list[str], tmp_path: Path
) -> None:
    path = write_job(tmp_path, data=data)
    with pytest.warns(FutureWarning) as caught:
        job = read_job(path)
    assert (job.groups, job.subgroups) == (groups, subgroups)
    assert [str(each.message).split(". ")[-1] for each in caught] == [
        f"Write {line} in place of it." for line in advice
    ]
    assert all(str(each.message).startswith(f"{path}: [data] ") for each in caught)


def test_one_column_of_groups_has_the_present_meaning(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, data={"groups": "region"}))
    assert (job.groups, job.subgroups) == ("region", ())


def test_the_old_and_the_new_name_together_are_refused(tmp_path: Path) -> None:
    data = {"groups": "customer", "clusters": "customer", "subgroups": "region"}
    message = refused(write_job(tmp_path, data=data))
    assert "clusters is the old name of groups, and both are given. Leave clusters out." in message


def test_several_columns_of_groups_beside_subgroups_are_refused(tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, data={"groups": ["customer", "day"], "subgroups": "region"}))
    assert (
        "groups must be one column, of rows that belong together; got ['customer', 'day']. List columns in" in message
    )


@pytest.mark.parametrize("value", ["x", -1, 1.5, True, [0]], ids=repr)
def test_a_seed_is_a_whole_number(value: Any, tmp_path: Path) -> None:
    message = refused(write_job(tmp_path, ensemble={"seed": value}))
    assert "[ensemble] seed" in message
    assert repr(value) in message
