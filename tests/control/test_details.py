"""What a status file tells beside truths: what was declared, and which line selected what answers."""

from collections.abc import Mapping
from typing import Any

from reconciler.admission.admit import Admission
from reconciler.config.objectfile import Declared, ServiceSeen
from reconciler.control import details, say
from reconciler.model.names import InstanceName, InterfaceRef, Kind, ObjectRef
from reconciler.model.routes import AgentRoutes, Route, RouteTable
from tests.admission import build

_AGENT = """\
apiVersion = "handler.agent/v1"
description = "reads"
project = "site"
requires = ["ocr/v1"]
scope = ["~/inbox", { path = "/srv/mail", access = "read" }]
"""
_PROJECT = 'apiVersion = "handler.project/v1"\nrequires = ["ocr/v1"]\n\n[services]\nocr = "b"\n'
_BINDING = 'apiVersion = "handler.binding/v1"\nconnector = "ocr-rapid"\n'


def judged(**agents: str) -> Admission:
    files = {f"agents/{name}.toml": text for name, text in agents.items()}
    config = {"projects/site.toml": _PROJECT, "bindings/b.toml": _BINDING, **files}
    return build.judge(config, build.catalog())


def serving(admission: Admission, agent: str) -> RouteTable:
    ref = InterfaceRef("ocr", 1)
    route = Route(ref, "b", InstanceName("b", "0123456789ab"), admission.contracts[ref])
    return RouteTable(1, {agent: AgentRoutes(agent, {"ocr": route})}, {})


def told(facts: say.Facts, ref: ObjectRef) -> Mapping[str, Any]:
    (one,) = [
        status for status in say.statuses(facts) if (status.kind, status.name) == (ref.kind.value, ref.name)
    ]
    return {"declared": one.declared, "services": one.services}


def test_an_agent_says_what_answers_it_and_which_line_chose_that() -> None:
    own = _AGENT + 'services.ocr = { binding = "b", tools = ["ocr_extract"], maxCalls = 5 }\n'
    admission = judged(clerk=_AGENT, reader=own)
    table = serving(admission, "clerk")
    (by_project,) = details.services(admission, table, "clerk")
    assert (by_project["file"], by_project["line"], by_project["field"]) == (
        "projects/site.toml",
        5,
        "services.ocr",
    )
    assert (by_project["interface"], by_project["binding"]) == ("ocr/v1", "b")
    assert by_project["instance"] == "b@0123456789ab"
    (by_itself,) = details.services(admission, table, "reader")
    assert (by_itself["file"], by_itself["line"], by_itself["maxCalls"]) == ("agents/reader.toml", 6, 5)
    assert (by_itself["tools"], by_itself["instance"]) == (["ocr_extract"], None)
    assert details.services(admission, None, "clerk")[0]["instance"] is None
    assert details.services(admission, table, "nobody") == ()
    for one in (by_project, by_itself):
        ServiceSeen.model_validate(one)


def test_an_object_says_what_its_file_declares() -> None:
    admission = judged(clerk=_AGENT)
    facts = say.Facts(admission, serving(admission, "clerk"), serving(admission, "clerk"), {})
    agent = told(facts, ObjectRef(Kind.AGENT, "clerk"))
    assert agent["declared"]["requires"] == ["ocr/v1"]
    assert agent["declared"]["project"] == "site"
    folders = [{"path": "~/inbox", "access": "create"}, {"path": "/srv/mail", "access": "read"}]
    assert agent["declared"]["scope"] == folders
    assert len(agent["services"]) == 1
    binding = told(facts, ObjectRef(Kind.BINDING, "b"))
    assert (binding["declared"]["connector"], binding["services"]) == ("ocr-rapid", ())
    for ref in admission.in_force:
        Declared.model_validate(details.declared(admission.in_force[ref].spec, admission))


def test_what_was_never_in_force_declares_nothing() -> None:
    admission = judged(clerk=_AGENT.replace('"site"', '"sit"'))
    facts = say.Facts(admission, RouteTable(1, {}, {}), RouteTable(1, {}, {}), {})
    assert told(facts, ObjectRef(Kind.AGENT, "clerk")) == {"declared": None, "services": ()}
