"""Every rule of a connector: the general ones, and what single runtimes cannot do or must be told.

What a runtime can never do is said where a connector is written, not when it starts.
"""

from collections.abc import Iterator

from reconciler.admission import connectors
from reconciler.admission.scopes import overlaps, plain
from reconciler.admission.slots import Words, problem
from reconciler.admission.view import View, inside
from reconciler.model.inventory import Resource
from reconciler.model.names import InterfaceRef
from reconciler.model.problems import Problem, listed, quoted
from reconciler.model.resources import Connector, SandboxNeeds

BUILTIN = ("fs/v1", "shell/v1", "agent/v1")  # what the product fulfils by itself
_CONTAINED = {"shell/v1"}  # of these what runs programs, in a sandbox of its own for each
_HANDS_OVER = ("python", "command")  # runtimes whose connectors can hand over more than was asked for


def deno_reads_no_descriptor(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Deno opens ``/dev/fd`` only to scripts that may do everything, so no secret goes that way."""
    if connectors.runtime(connector) != "deno":
        return
    for name, slot in connector.spec.secret_slots.items():
        if slot.via == "fd":
            words = Words(
                f"the slot {quoted(name)} goes via fd, which a script of deno's cannot read",
                "deno lets no script read a descriptor that it was started with",
                'write via = "file"',
            )
            yield problem(connector, ("secretSlots", name, "via"), "C231", words)


def an_image_brings_its_own(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Nothing of the machine is added to the file system of an image."""
    if connectors.runtime(connector) != "image":
        return
    for key in ("programs", "read"):
        if getattr(connector.spec.sandbox, key):
            words = Words(
                f"'sandbox.{key}' adds nothing to an image",
                "an image brings its own programs and data, and its folders cannot be added to",
                f"put it into the image, and delete '{key}'",
            )
            yield problem(connector, ("sandbox", key), "C236", words, on_key=True)
    if connectors.LOCK in inside(connector):
        words = Words(
            f"{quoted(connectors.LOCK)} says nothing to runtime image",
            "an image brings the packages that it needs",
            f"delete {connectors.LOCK}",
        )
        yield problem(connector, ("runtime",), "C236", words)


def what_is_attached_is_left_alone(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """An absolute path outside of the product's folders; nothing is handed to what runs there already."""
    if connectors.runtime(connector) != "attached":
        return
    spec, path = connector.spec, connector.spec.socket or "/x"
    odd = not path.startswith("/") or not path.isprintable()
    if odd or not plain(path) or overlaps(path, view.where.forbidden):
        words = Words(
            f"{quoted(path)} is no socket that can be attached",
            "it is a whole path, and none of Handler's own sockets",
            "write one like '/run/user/1000/app.sock'",
        )
        yield problem(connector, ("socket",), "C237", words)
    for key, used in (
        ("egress", spec.egress),
        ("secretSlots", spec.secret_slots),
        ("settings", spec.settings),
    ):
        if used:
            words = Words(
                f"{quoted(key)} says nothing to runtime attached",
                "what is attached runs already: nothing is handed to it, and nothing holds it back",
                f"delete {quoted(key)}",
            )
            yield problem(connector, (key,), "C238", words, on_key=True)
    for version in dict.fromkeys(spec.implements):
        contract = view.contract(InterfaceRef.parse(version))
        if contract is not None and any(tool.files for tool in contract.tools.values()):
            words = Words(
                f"{version} has tools that take or write files",
                "files are handed over inside a sandbox, and what is attached has none",
                "run it as a connector of another runtime",
            )
            yield problem(connector, ("implements",), "C239", words)


def what_is_builtin_is_there(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """The product has what it is to fulfil; nothing is handed to it, and no code of a folder runs in it."""
    if connectors.runtime(connector) != "builtin":
        return
    spec = connector.spec
    alone = set(spec.implements) != _CONTAINED
    for index, version in enumerate(spec.implements):
        if version not in BUILTIN or (version in _CONTAINED and alone):
            words = Words(
                f"the product itself does not have {version}",
                f"runtime builtin is a part of the product, which has {listed(BUILTIN)}",
                "write a connector of another runtime for it",
            )
            yield problem(connector, ("implements", index), "C240", words)
    for key, used in (
        ("egress", spec.egress),
        ("secretSlots", spec.secret_slots),
        ("settings", spec.settings if alone else False),
        ("sandbox", alone and spec.sandbox != SandboxNeeds()),
    ):
        if used:
            words = Words(
                f"{quoted(key)} says nothing to runtime builtin",
                "what is part of the product runs in the controller: no sandbox, secret or network is made",
                f"delete {quoted(key)}",
            )
            yield problem(connector, (key,), "C241", words, on_key=True)


def what_is_added_is_handed_over(view: View, connector: Resource[Connector]) -> Iterator[Problem]:
    """Files are added to a folder alone, by a runtime that can hand them over, and within a call."""
    runtime = connectors.runtime(connector)
    for key, setting in connector.spec.settings.items():
        words = None
        if setting.access is not None and setting.format != "folder":
            words = Words(
                f"{quoted(key)} is no folder", "access says what is done with a folder", "delete access"
            )
        elif setting.access == "add" and runtime not in _HANDS_OVER:
            words = Words(
                f"runtime {runtime} adds no files to a folder",
                "they are handed over beside an answer, in a way that is the product's own",
                f"run it as {listed(_HANDS_OVER)}",
            )
        elif setting.access == "add" and (job := _job(view, connector)):
            words = Words(
                f"{job} is a job, which adds no files to a folder",
                "its process has ended when its result is taken, and files are added within a call",
                "write another connector for it",
            )
        if words is not None:
            yield problem(connector, ("settings", key, "access"), "C243", words)


def _job(view: View, connector: Resource[Connector]) -> str | None:
    """A version with a job that it implements."""
    for version in dict.fromkeys(connector.spec.implements):
        contract = view.contract(InterfaceRef.parse(version))
        if contract is not None and any(one.kind == "job" for one in contract.spec.operations.values()):
            return version
    return None


RULES = (
    *connectors.RULES,
    what_is_added_is_handed_over,
    deno_reads_no_descriptor,
    an_image_brings_its_own,
    what_is_attached_is_left_alone,
    what_is_builtin_is_there,
)
