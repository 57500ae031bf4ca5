"""Settings of the agent's side: one mapping in, one checked object out."""

import pytest
from pydantic import ValidationError

from todo_write.settings import InvalidSetting, Settings, mask

OTHERS = dict.fromkeys(("redis_ca_file", "redis_cert_file", "redis_key_file")) | {  # test_tls.py, test_limits.py
    "todo_write_bytes_max": 262_144,
    "event_bytes_max": 1_048_576,
    "append_bytes_max": 67_108_864,
    "session_rate_max": 1000,
    "process_rate_max": 10_000,
}
EVERYTHING = {
    "TODO_REDIS_URL": "rediss://me:geheim@example.org:7000/3",
    "TODO_NAMESPACE": "fleet-1_a",
    "TODO_PARTITIONS": "128",
    "TODO_ALLOW_PARALLEL_IN_PROGRESS": "true",
    "TODO_SESSION": "s 1",
    "TODO_APPEND_BUDGET_MS": "2000",
    "TODO_APPEND_ATTEMPT_MS": "200",
    "TODO_SOMETHING_ELSE": "ignored",
    "HOME": "/",
}


def test_nothing_given_means_the_defaults() -> None:
    assert Settings.from_env({}).model_dump() == OTHERS | {
        "redis_url": "redis://127.0.0.1:6379/0",
        "namespace": "todo",
        "partitions": None,
        "allow_parallel_in_progress": None,
        "session": None,
        "append_budget_ms": 5000,
        "append_attempt_ms": 1000,
    }


def test_every_variable_is_read() -> None:
    assert Settings.from_env(EVERYTHING).model_dump() == OTHERS | {
        "redis_url": "rediss://me:geheim@example.org:7000/3",
        "namespace": "fleet-1_a",
        "partitions": 128,
        "allow_parallel_in_progress": True,
        "session": "s 1",
        "append_budget_ms": 2000,
        "append_attempt_ms": 200,
    }


def test_a_flag_overrules_a_variable_and_one_that_was_not_given_does_not() -> None:
    settings = Settings.from_env(EVERYTHING, namespace="mine", partitions=None, allow_parallel_in_progress=False)
    assert (settings.namespace, settings.partitions, settings.allow_parallel_in_progress) == ("mine", 128, False)


def test_an_empty_variable_is_not_given() -> None:
    assert Settings.from_env(dict.fromkeys(EVERYTHING, "")) == Settings()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().namespace = "other"


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("TODO_PARTITIONS", "0", "allowed: a whole number from 1 to 1024"),
        ("TODO_PARTITIONS", "1025", "allowed: a whole number from 1 to 1024"),
        ("TODO_PARTITIONS", "many", "allowed: a whole number from 1 to 1024"),
        ("TODO_PARTITIONS", "1.5", "allowed: a whole number from 1 to 1024"),
        ("TODO_NAMESPACE", "Fleet", "allowed: 1-32 characters of a-z, 0-9, '_' and '-'"),
        ("TODO_NAMESPACE", "a" * 33, "allowed: 1-32 characters of a-z, 0-9, '_' and '-'"),
        ("TODO_NAMESPACE", "a\n", "allowed: 1-32 characters of a-z, 0-9, '_' and '-'"),
        ("TODO_ALLOW_PARALLEL_IN_PROGRESS", "perhaps", "allowed: true or false"),
        ("TODO_SESSION", "a\nb", "has a control character"),
        ("TODO_SESSION", "x" * 257, "is 257 bytes long"),
        ("TODO_APPEND_BUDGET_MS", "0", "allowed: a whole number of milliseconds from 1 to 600000"),
        ("TODO_APPEND_ATTEMPT_MS", "soon", "allowed: a whole number of milliseconds from 1 to 60000"),
        ("TODO_REDIS_URL", "http://example.org", "allowed: redis://"),
        ("TODO_REDIS_URL", "localhost:6379", "allowed: redis://"),
        ("TODO_REDIS_URL", "redis://example.org:port/0", "allowed: redis://"),
        ("TODO_REDIS_URL", "redis://example.org:6379/todo", "database 'todo' is not a number"),
        ("TODO_REDIS_URL", "redis://example.org:6379/0?colour=red", "option 'colour' is not one of"),
        ("TODO_REDIS_URL", "redis://example.org:6379/0?decode_responses=1", "option 'decode_responses' is not one of"),
        ("TODO_REDIS_URL", "redis://example.org:6379/0?ssl_cert_reqs=none", "an option does not fit"),
        ("TODO_REDIS_URL", "unix://", "the path of the socket is missing"),
        ("TODO_REDIS_URL", "redis+cluster://example.org:7000/1", "a cluster has no database but 0"),
        ("TODO_REDIS_URL", "redis+cluster://example.org:7000,", "a host is missing"),
        ("TODO_REDIS_URL", "redis+cluster://example.org:port", "a host or port can't be read"),
        (
            "TODO_REDIS_URL",
            "redis+cluster://example.org?sentinel_username=a",
            "option 'sentinel_username' is not one of",
        ),
        ("TODO_REDIS_URL", "redis+sentinel://example.org:26379", "the name of the service is missing"),
        ("TODO_REDIS_URL", "redis+sentinel://example.org/plans/todo", "database 'todo' is not a number"),
        ("TODO_REDIS_URL", "rediss+sentinel://example.org/plans?colour=red", "option 'colour' is not one of"),
        ("TODO_REDIS_URL", "redis+proxy://example.org", "allowed: redis://"),
    ],
)
def test_a_bad_value_is_refused_with_variable_value_and_what_is_allowed(variable: str, value: str, why: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Settings.from_env({variable: value})
    text = str(refused.value)
    assert text.startswith(f"{variable} is {value!r}")
    assert why in text
    assert "; allowed: " in text


def test_a_bad_flag_is_refused_like_its_variable() -> None:
    with pytest.raises(InvalidSetting, match="TODO_PARTITIONS is 0; allowed: a whole number"):
        Settings.from_env({}, partitions=0)


def test_all_bad_values_are_told_one_a_line() -> None:
    with pytest.raises(InvalidSetting) as refused:
        Settings.from_env({"TODO_PARTITIONS": "x", "TODO_NAMESPACE": "Ü"})
    lines = str(refused.value).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["TODO_NAMESPACE", "TODO_PARTITIONS"]


def test_a_flag_nobody_knows_is_a_mistake_of_the_program() -> None:
    with pytest.raises(TypeError, match="no setting 'colour'"):
        Settings.from_env({}, colour="red")


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:geheim@example.org:port",
        "redis://:geheim@example.org/todo",
        "redis://me:ge@geheim/heim@example.org/todo",
        "http://example.org?password=geheim&db=1",
        "redis://example.org?ssl_password=geheim",
        "redis+cluster://me:geheim@example.org,example.org:port",
        "redis+cluster://me:ge/heim:geheim@example.org",
        "redis+sentinel://me:geheim@example.org,example.net",
        "redis+sentinel://example.org/plans?sentinel_password=geheim&db=x",
        "geheim//me:geheim@example.org".removeprefix("geheim"),
    ],
)
def test_no_password_is_shown(url: str) -> None:
    assert "geheim" not in mask(url)
    with pytest.raises(InvalidSetting) as refused:
        Settings.from_env({"TODO_REDIS_URL": url})
    assert "geheim" not in str(refused.value)


def test_the_password_is_not_in_the_objects_own_text() -> None:
    assert "geheim" not in repr(Settings.from_env(EVERYTHING))


def test_a_masked_url_still_says_who_and_where() -> None:
    assert mask("redis://me:geheim@example.org:7000/3") == "redis://me:***@example.org:7000/3"
    assert mask("redis://example.org:7000/3?db=1") == "redis://example.org:7000/3?db=1"
