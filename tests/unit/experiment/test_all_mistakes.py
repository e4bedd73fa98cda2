"""All mistakes of a file are named at once, each once, and in words of YAML instead of Python."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from brokerproof.checks import load_scenario, load_topology
from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import FrozenModel, parse
from brokerproof.systems.pulsar.client_settings import PulsarClientSettings
from brokerproof.systems.pulsar.policies import ClusterPolicies
from builders import TOPOLOGIES

GOOD: dict[str, Any] = {
    "title": "t",
    "description": "d",
    "topology": "base",
    "workload": {"namespace": "mytenant/eu"},
    "faults": [{"name": "gone", "kind": "kill", "targets": {"region": "eu"}}],
}


def load(directory: Path, settings: dict[str, Any] | None = None, /, **content: Any) -> Any:
    """Load a scenario on the topology `base`, which tests may replace before."""
    base = directory / "base.yaml"
    if not base.exists():
        base.write_text((TOPOLOGIES / "sync_active_passive.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    file = directory / "mine" / "experiment.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump({**GOOD, **content}), encoding="utf-8")
    return load_scenario(file, directory, settings, suites=["ordering", "recovery"])


def refuse(directory: Path, settings: dict[str, Any] | None = None, /, **content: Any) -> list[InputError]:
    """The mistakes of a scenario, each with the name of its file and a remedy."""
    with pytest.raises(InputError) as refused:
        load(directory, settings, **content)
    mistakes = list(refused.value.mistakes)
    assert str(refused.value).splitlines() == [str(mistake) for mistake in mistakes]
    assert [str(mistake) for mistake in mistakes if not (mistake.file and mistake.remedy)] == []
    return mistakes


def test_all_mistakes_of_the_fields_are_named(tmp_path: Path) -> None:
    mistakes = refuse(
        tmp_path,
        titel="t",
        guarantee="exactly_once",
        workload={"rate": "800/s", "producers": 0, "subscriptions": [{"name": "My audit", "consumers": None}]},
        faults=[{"name": "gone", "kind": "kil", "targets": {"region": "eu"}, "at_s": "5s"}],
        bounds={"rto_s": 30, "rpo": {"max": 1}},
        expect={"failed_suites": ["orderin"]},
    )
    assert {mistake.field: mistake.remedy for mistake in mistakes} == {
        "titel": "did you mean `title`?",
        "guarantee": "did you mean `effectively_once`?",
        "workload.rate": "write a whole number, as in 800",
        "workload.producers": "write at least 1",
        "workload.subscriptions.0.name": "use lower-case letters, digits and `_`, with a letter first",
        "workload.subscriptions.0.consumers": "write a whole number, as in 1",
        "faults.0.kind": "did you mean `kill`?",
        "faults.0.at_s": "write a number, as in 5",
        "bounds.rto_s": "write `{max: 10}`",
        "bounds.rpo": "did you mean `rpo_s`?",
        "expect.failed_suites.0": "did you mean `ordering`?",
    }


def test_all_that_does_not_exist_is_named_beside_fields_of_the_wrong_kind(tmp_path: Path) -> None:
    names = {
        "version": "4.0.7",
        "runtime": "dokcer",
        "workload": {"namespace": "mytenant/eu", "region": "asia", "produce_on": ["mine"]},
        "faults": [
            {"name": "one", "kind": "kill", "targets": {"nodes": ["broker-eu-9"]}},
            {"name": "two", "kind": "kill", "targets": {"role": "brokr", "cluster": "mycluste"}},
        ],
        "owner": {"steady": "asia"},
        "settings": {"brokr": {"a": 1}},
    }
    unknown = {
        *("version", "runtime", "workload.region", "workload.produce_on.0", "owner.steady", "settings.brokr"),
        *("faults.0.targets.nodes", "faults.1.targets.role", "faults.1.targets.cluster"),
    }
    assert {mistake.field for mistake in refuse(tmp_path, **names)} == unknown
    assert {mistake.field for mistake in refuse(tmp_path, **names, settle_s="long")} == {*unknown, "settle_s"}


def test_mistakes_that_need_a_topology_are_named_together(tmp_path: Path) -> None:
    mistakes = refuse(
        tmp_path,
        workload={
            "namespace": "mytenant/asia",
            "subscriptions": [{"name": "audit", "moves": {"to": "mycluster", "after": "gon"}}],
        },
        faults=[
            {"name": "gone", "kind": "partition", "targets": {"region": "eu"}},
            {"name": "led", "kind": "kill", "targets": {"now": "coordination_leader"}},
            {"name": "owner", "kind": "unload", "targets": {"region": "eu"}},
        ],
        loosen={"delivered_twice": {}, "lost": {"home": "mycluste"}},
        destroyed=["mycluster"],
    )
    assert {mistake.field for mistake in mistakes} == {
        *("faults.0.kind", "faults.1.targets.now", "faults.2.targets.now", "workload.namespace", "destroyed"),
        *("workload.subscriptions.0.moves.after", "workload.subscriptions.0.name"),
        *("loosen.delivered_twice", "loosen.lost.home"),
    }


def test_the_mistakes_of_the_scenario_and_of_its_topology_are_named_each_with_its_file(tmp_path: Path) -> None:
    base = yaml.safe_load((TOPOLOGIES / "sync_active_passive.yaml").read_text(encoding="utf-8"))
    nodes = base["clusters"]["mycluster"]["nodes"]
    nodes["broker-eu-1"]["regoin"] = nodes["broker-eu-1"].pop("region")
    nodes["bookie-eu-1"]["rack"] = "Rack 1"
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base), encoding="utf-8")
    mistakes = refuse(tmp_path, workload={"namespace": "mytenant/eu", "rat": 5}, phases={"impact_s": -1})
    assert [(Path(mistake.file).name, mistake.field) for mistake in mistakes] == [
        ("experiment.yaml", "workload.rat"),
        ("experiment.yaml", "phases.impact_s"),
        ("base.yaml", "clusters.mycluster.nodes.bookie-eu-1.rack"),
        ("base.yaml", "clusters.mycluster.nodes.broker-eu-1.regoin"),
    ]


def test_each_setting_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    mistakes = refuse(tmp_path, {"title.x": 1, "faults.7.name": "x", "workload.rate": 5})
    assert [(mistake.file, mistake.field) for mistake in mistakes] == [("--set", "title.x"), ("--set", "faults.7.name")]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"workload": {"namespac": "mytenant/eu"}}, "workload.namespac: unknown field"),
        ({"faults.0": {"nam": "gone", "kind": "kill", "targets": {"region": "eu"}}}, "faults.0.nam: unknown field"),
        ({"faults.0.targets": {"regoin": "eu"}}, "faults.0.targets.regoin: unknown field `regoin` (did you mean"),
        ({"faults.0.targets.region": "ue"}, "faults.0.targets.region: no region is called"),
        ({"faults.0.kind": "destory", "destroyed": ["mycluster"]}, "faults.0.kind: no fault kind is called"),
        ({"workload.produce_on": ["mycluste"]}, "workload.produce_on.0: no cluster is called"),
        ({"workload.namespace": "mytenant/ue"}, "workload.namespace: no namespace is called"),
        (
            {"workload": {"client": {"access": "exclusive"}, "producers": 2}},
            "workload.producers: 2 producers of a topic, and `exclusive` allows one",
        ),
        (
            {"workload.client.on_restart": "continue"},
            "workload.client.on_restart: `continue` needs a topic with deduplication",
        ),
        (
            {"workload.subscriptions": [{"name": "all", "type": "shared", "acks": "cumulative"}]},
            "workload.subscriptions.0.acks: the consumers of a `shared` subscription each acknowledge their own",
        ),
        ({"topology": "bas"}, "topology: no topology is called"),
        ({"runtime": "dokcer", "faults.0.kind": "pause"}, "runtime: no runtime is called"),
        ({"faults.0.at_s": 70, "faults.0.heal_at_s": 75}, "faults.0.at_s: overlaps"),
        ({"loosen": ["lost"], "tighten": ["lost"]}, "loosen.lost: `lost` is in `tighten`, too"),
        ({"overrides": {"clusters.mycluster.nodes.metadata-1.role": "metdata"}}, "role: no role of pulsar is called"),
        ({"overrides": {"clusters.mycluster.placement": {"bookies": "pinned", "pinned_to": "ue"}}}, "placement.pinned"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_one_typing_error_is_one_sentence(tmp_path: Path, settings: dict[str, Any], sentence: str) -> None:
    load(tmp_path)
    (mistake,) = refuse(tmp_path, settings)
    assert sentence in str(mistake)


@pytest.mark.parametrize(
    "path",
    ["clusters.cluster-us.namespaces.world/global.deduplication", "clusters.cluster-us.namespaces.world/globl"],
)
def test_two_clusters_that_contradict_each_other_are_one_mistake(path: str) -> None:
    value = {"replicated_to": ["cluster-eu"]} if path.endswith("globl") else True
    with pytest.raises(InputError) as refused:
        load_topology("active_active", TOPOLOGIES, {path: value})
    assert len(refused.value.mistakes) == 1, str(refused.value)


def test_a_mistake_in_what_an_anchor_and_its_alias_share_is_one_mistake(tmp_path: Path) -> None:
    text = (TOPOLOGIES / "geo_replication.yaml").read_text(encoding="utf-8")
    assert "*" in text
    (tmp_path / "base.yaml").write_text(text.replace("replicated_to:", "replicate_to:"), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_topology("base", tmp_path)
    assert [mistake.field.rpartition(".")[2] for mistake in refused.value.mistakes] == ["replicate_to"]
    # Two places that write the same mistake are two mistakes.
    again = yaml.safe_load(text.replace("role: bookie", "rol: bookie"))
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(again), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_topology("base", tmp_path)
    assert len(refused.value.mistakes) == text.count("role: bookie")


def test_the_name_of_a_file_that_can_be_no_scenario_is_one_mistake(tmp_path: Path) -> None:
    file = tmp_path / "My-scenario.yaml"
    file.write_text(yaml.safe_dump({**GOOD, "topology": "sync_active_passive"}), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_scenario(file, TOPOLOGIES)
    assert str(refused.value) == (
        f"{file}: a scenario cannot be called `My-scenario` "
        "(rename the file: use lower-case letters, digits and `_`, with a letter first)"
    )


@pytest.mark.parametrize("name", ["restart", "rolling", "reboot", "bounce", "Rolling-Restart"])
def test_a_restart_is_answered_with_how_to_write_one(tmp_path: Path, name: str) -> None:
    (mistake,) = refuse(tmp_path, {"faults.0.kind": name})
    example = re.search(r"`(\{.*\})`", mistake.remedy)
    assert example is not None
    written = yaml.safe_load(example[1].replace("…", "{region: eu}"))
    scenario, _ = load(tmp_path, {"faults.0": {"name": "gone", **written}})
    assert (scenario.faults[0].kind, scenario.faults[0].heal_after_s) == ("stop", 0)


@pytest.mark.parametrize(
    ("word", "kind"),
    [("crash", "kill"), ("freeze", "pause"), ("network partition", "partition"), ("latency", "delay"), ("kil", "kill")],
)
def test_an_everyday_word_is_answered_with_the_kind_of_fault(tmp_path: Path, word: str, kind: str) -> None:
    (mistake,) = refuse(tmp_path, {"faults.0.kind": word})
    assert f"`{kind}`" in mistake.remedy


def test_several_mistakes_survive_a_process_boundary() -> None:
    mistakes = Mistakes([InputError("one", file="f", field="a", remedy="r"), InputError("two", field="b")])
    with pytest.raises(InputError) as raised:
        mistakes.raise_all()
    copied = pickle.loads(pickle.dumps(raised.value))
    assert str(copied) == "f: a: one (r)\nb: two"
    assert [mistake.field for mistake in copied.mistakes] == ["a", "b"]


# Words of Python and pydantic.
FOREIGN = re.compile(
    r"dictionary|instance|\bvalid\b|\binvalid\b|NoneType|\bNone\b|\bTrue\b|\bFalse\b|\bstr\b|\bint\b|\bfloat\b|\bbool\b"
    r"|\btuple\b|\bdict\b|\benum\b|[Ii]nput should|datetime|unable to parse|\bstring\b|\binteger\b"
    r"|\bboolean\b|\barray\b|'\w*'|\[key\]|function-|pattern"
)
WRONG: list[Any] = [
    *("a text", "", "-5", "5 s", 7, -7, 0, 2.5, float("inf"), float("nan"), True, False, None, date(2024, 1, 1)),
    *([], ["a text"], [5], [None], [[]], [{"a": 1}], {}, {"a": 1}, {"a": None}, {"a": []}, {5: "x"}, {"a": {"b": []}}),
]


def list_fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The dotted path of each field of a model, at any depth, with `0` or `x` for an item of a list or mapping."""
    definitions = schema.get("$defs", {})

    def walk(node: dict[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield ".".join(at), node
        for option in [node, *node.get("anyOf", [])]:
            option = definitions[option["$ref"].rsplit("/", 1)[1]] if "$ref" in option else option
            for name, inner in option.get("properties", {}).items():
                yield from walk(inner, (*at, name))
            if "items" in option:
                yield from walk(option["items"], (*at, "0"))
            if isinstance(option.get("additionalProperties"), dict):
                yield from walk(option["additionalProperties"], (*at, "x"))

    yield from walk(schema, ())


def put(path: str, value: Any) -> Any:
    """A mapping that has the value at a dotted path."""
    for name in reversed(path.split(".") if path else []):
        value = [value] if name == "0" else {name: value}
    return value


FIELDS = [
    (model, path)
    for model in (Scenario, Topology, PulsarClientSettings, ClusterPolicies)
    for path, _ in list_fields(model.model_json_schema())
    if path
]


@pytest.mark.parametrize(("model", "path"), FIELDS, ids=lambda value: value if isinstance(value, str) else None)
def test_no_sentence_about_a_value_of_the_wrong_kind_has_words_of_python(model: type[FrozenModel], path: str) -> None:
    refused = 0
    for value in WRONG:
        try:
            parse(model, put(path, value), file="mine.yaml")
        except InputError as error:
            for mistake in error.mistakes:
                # The value that the test wrote is no word of the sentence.
                sentence = f"{mistake.problem} ({mistake.remedy})".replace("`a text`", "")
                assert not FOREIGN.search(sentence), f"{value!r}: {sentence}"
                assert mistake.remedy
                assert "\n" not in str(mistake)
                refused += mistake.field.startswith(path)
    assert refused


def test_the_walk_sees_every_depth() -> None:
    paths = {path for _, path in FIELDS}
    assert {
        *("workload.subscriptions.0.moves.after_s", "faults.0.link.regions.0", "bounds.x.max", "settings.x.x"),
        *("clusters.x.nodes.x.restart.after_s", "links.0.between.0", "namespaces.x.persistence.ensemble"),
    } <= paths
