"""Local programs that end, as jobs: a template into an argument list, an end into an outcome. Pure.

The same class of driver as those over HTTP, over an executor in place of a wire. A program's name there is
derived from the attempt's key, and a second one of that name cannot be while the first is: its identity is
natural, a lookup is by key, a cancel is proved when its process tree is gone. Values are never words of a
shell; a value that could be taken for an option, or a path, does not get in.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Literal

from reconciler.drivers import bytesof
from reconciler.drivers.asking import Unsealable
from reconciler.drivers.programs import Ended, Exit, Output, Program, Run
from reconciler.model.outcome import (
    Absent,
    CancelAck,
    Cancelled,
    Done,
    LookupOutcome,
    Media,
    Pending,
    Rejected,
    Unknown,
)

_HOLE = re.compile(r"\{(?P<kind>in|out|field)\.(?P<name>[A-Za-z][A-Za-z0-9_]*)\}")
_LONGEST_VALUE = 4096  # bytes of one value in an argument
_MOST_ARGUMENTS = 1024
IN, OUT = "/run/job/in", "/run/job/out"  # as the program sees them: the one read-only, the other its own


def unit(key: str) -> str:
    """The name of the one run that may be of this key."""
    return f"hdl-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def seal(program: Program, key: str, fields: Mapping[str, object], inputs: Mapping[str, Media]) -> Run:
    """The run of a call. Raises Unsealable for a value that is no plain one, or that nothing speaks of."""
    names = {name: _input_name(name, one) for name, one in sorted(inputs.items())}
    spoken = set(program.arguments).union(*program.optional.values())
    holes = {
        found.group("name") for one in spoken for found in _HOLE.finditer(one) if found["kind"] == "field"
    }
    for name in fields:
        if name not in holes:
            raise Unsealable(f"field.{name}")
    argv = [program.program]
    for argument in _arguments(program, fields):
        argv.append(_filled(argument, fields, names, program.outputs))
    if len(argv) > _MOST_ARGUMENTS:
        raise Unsealable("arguments")
    digests = {names[name]: hashlib.sha256(one.data).hexdigest() for name, one in inputs.items()}
    what = "\0".join((unit(key), *argv, *(f"{name}:{digests[name]}" for name in sorted(digests))))
    digest = f"sha256:{hashlib.sha256(what.encode()).hexdigest()}"
    return Run(unit(key), tuple(argv), digests, dict(program.outputs), program.timeout_s, digest)


def _arguments(program: Program, fields: Mapping[str, object]) -> list[str]:
    """The arguments in their order; ``{optional.NAME}`` alone stands for a field's group."""
    found: list[str] = []
    for argument in program.arguments:
        group = re.fullmatch(r"\{optional\.([A-Za-z][A-Za-z0-9_]*)\}", argument)
        if group is None:
            found.append(argument)
        elif group.group(1) in fields:
            found += program.optional.get(group.group(1), ())
    return found


def _filled(
    argument: str, fields: Mapping[str, object], inputs: Mapping[str, str], outputs: Mapping[str, Output]
) -> str:
    def value(found: re.Match[str]) -> str:
        kind, name = found["kind"], found["name"]
        if kind == "in" and name in inputs:
            return f"{IN}/{inputs[name]}"
        if kind == "out" and name in outputs:
            return f"{OUT}/{outputs[name].name}"
        if kind == "field" and name in fields:
            return _value(name, fields[name], alone=found.start() == 0)
        raise Unsealable(f"{kind}.{name}")

    return _HOLE.sub(value, argument)


def _value(name: str, value: object, *, alone: bool) -> str:
    """A value as text. One that begins an argument may not look like an option; none holds a control
    character. A text where a program would read more than text (a filter, an address) is the template's to
    keep out: by an enumeration in the interface.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Unsealable(f"field.{name}")
    words = value if isinstance(value, str) else repr(value)
    if not words.isprintable() or len(words.encode(errors="replace")) > _LONGEST_VALUE:
        raise Unsealable(f"field.{name}")
    if alone and isinstance(value, str) and words[:1] in ("-", "+", "@", "/", ""):
        raise Unsealable(f"field.{name}")
    return words


def _input_name(name: str, media: Media) -> str:
    """A name of ours: of the caller's it has the ending alone, where that is a plain one."""
    ending = media.name.rpartition(".")[2].lower()
    return f"{name}.{ending}" if re.fullmatch(r"[a-z0-9]{1,8}", ending) else name


def read(ended: Ended, run: Run, program: Program) -> Done | Rejected | Cancelled | Unknown:
    """What an end means. Only exit status 0 with every output, each of its media types and within its bound,
    is success; what else a program may mean by a status its template says. While a process of it is left,
    nothing is known.
    """
    if not ended.tree_is_gone:
        return Unknown("a process of the run is left")
    if ended.cause == "cancelled":
        return Cancelled("cancelled", proved=True)
    if ended.cause != "exit" or ended.status is None:
        words = {
            "timeout": "it took too long",
            "memory": "it took too much memory",
            "signal": "it was killed",
        }
        return Rejected("unavailable", words.get(ended.cause, "it did not end"), "none")
    if ended.status != 0:
        means = program.exits.get(ended.status, Exit("unavailable"))
        return Rejected(means.code, f"exit status {ended.status}", means.effect)
    return _outputs(ended, run)


def _outputs(ended: Ended, run: Run) -> Done | Rejected:
    """Files stay files: the result says of each its name in the output folder, its media type, its size."""
    result: dict[str, object] = {}
    for key, output in sorted(run.outputs.items()):
        left = ended.files.get(key)
        if left is None or not left.size:
            return Rejected("unavailable", f"it left no {output.name}", "none")
        if left.size > output.max_bytes:
            return Rejected("limit", f"{output.name} is larger than {output.max_bytes} bytes", "none")
        kind = bytesof.media_type(left.head, "", output.media_types)
        if kind is None:
            return Rejected("unavailable", f"{output.name} is of another media type", "none")
        result[key] = {"file": output.name, "mediaType": kind, "bytes": left.size}
    return Done(result)


def read_lookup(
    state: Literal["queued", "running", "absent"] | Ended, run: Run, program: Program
) -> LookupOutcome:
    """Where the run of this unit stands. It is ours alone to start, so that it is not there proves that it is
    not running; whether it ever ran its own end says.
    """
    if isinstance(state, Ended):
        return read(state, run, program)
    if state == "absent":
        return Absent(proof=True)
    return Pending(state, moving=state == "running")


def read_cancel(ended: Ended | None) -> CancelAck:
    """What stopping it brought: proved when no process of it is left."""
    if ended is None:
        return CancelAck("unknown")
    return CancelAck("proved" if ended.tree_is_gone else "requested")
