"""Profiles and the register: what a profile may state, and that a published one never changes.

A profile stays within its dialect: of the operations that the register lists it states or refuses each, so
that none is forgotten. Its facts name each other rightly: a required field has a table, a route that needs a
job says where it stands, a key of a header says which. What a server does is not judged here; evidence is.
"""

from collections.abc import Iterable, Iterator

from reconciler.admission.view import View, nearest
from reconciler.model.dialect import Operation, Profile
from reconciler.model.inventory import Layer, Resource
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.problems import Path, Problem, Span, listed, quoted
from reconciler.model.register import Dialect

_Words = tuple[str, str, str]  # what, why, mend

_NOT_SERVED = {
    "query": "a key in an address is written down by servers, proxies and logs on its way",
    "mtls": "the gate adds keys by headers alone",
    "sigv4": "the gate adds keys by headers alone",
}


def dialects_come_with_the_product(view: View, dialect: Resource[Dialect]) -> Iterator[Problem]:
    """A dialect is spoken by a driver, so an entry of the register ships with it."""
    catalogue = view.inventory.trees.get(Layer.CATALOG)
    if dialect.layer is Layer.CATALOG or catalogue is None or not catalogue.files:
        return  # nothing lies below the catalogue when it is itself what is judged
    words = (
        "a configuration has no dialects of its own",
        "a dialect is spoken by a driver, which is part of the product",
        "state the server's facts in a profile of a dialect that is there",
    )
    yield _problem(dialect, "D201", words, ())


def dialect_is_registered(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """A profile is of a dialect of the register, and names the driver that speaks it."""
    spec, path = profile.spec.identity, ("profile", "dialect")
    entry = _dialect(view, profile)
    if entry is None:
        known = view.names(Kind.DIALECT)
        near = nearest(spec.dialect, known)
        words = (
            f"the dialect {quoted(spec.dialect)} is not in the register",
            f"the register has {listed(known)}",
            f"write {quoted(near)}" if near else "name one of them",
        )
        yield _problem(profile, "D202", words, path, reason="UnresolvedReference")
    elif entry.spec.driver != spec.driver:
        words = (
            f"the driver {quoted(spec.driver)} does not speak {spec.dialect}",
            "one driver speaks a dialect, and the register names it",
            f"write driver = {quoted(entry.spec.driver)}",
        )
        yield _problem(profile, "D203", words, ("profile", "driver"))


def operations_are_the_dialects(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """The operations stated and those refused are together all that the dialect may have, each once."""
    entry = _dialect(view, profile)
    if entry is None:
        return
    spec, known = profile.spec, entry.spec.operations
    stated = [one.name for one in spec.operations]
    named: list[tuple[Path, str]] = [
        (("operation", index, "name"), name) for index, name in enumerate(stated)
    ]
    named += [(("profile", "refuses", index), name) for index, name in enumerate(spec.identity.refuses)]
    seen: set[str] = set()
    for path, name in named:
        if name not in known:
            near = nearest(name, known)
            words = (
                f"{spec.identity.dialect} has no operation {quoted(name)}",
                f"its operations are {listed(sorted(known))}",
                f"write {quoted(near)}" if near else "delete it",
            )
            yield _problem(profile, "D204", words, path)
        elif name in seen:
            words = (
                f"the operation {quoted(name)} stands twice",
                "a server offers an operation or does not",
                "delete one of them",
            )
            yield _problem(profile, "D205", words, path)
        seen.add(name)
    if missing := sorted(known.keys() - seen):
        words = (
            f"nothing is said of {listed(map(quoted, missing))}",
            "what is stated and what is refused are all operations of the dialect, so that none is forgotten",
            f"add it to refuses, or a table [[operation]]: {', '.join(missing)}",
        )
        yield _problem(profile, "D206", words, ("profile", "refuses"))


def operations_are_driven_as_registered(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """Kind and result type of each operation are those that the dialect lists."""
    entry = _dialect(view, profile)
    for index, operation in enumerate(profile.spec.operations if entry else ()):
        known = entry.spec.operations.get(operation.name) if entry else None
        if known is None:
            continue
        why = f"{profile.spec.identity.dialect} says what {quoted(operation.name)} is"
        if operation.result != known.result:
            words = (f"its result is not {quoted(operation.result)}", why, f"write {quoted(known.result)}")
            yield _problem(profile, "D207", words, ("operation", index, "result"))
        if profile.spec.identity.kind != known.kind:
            words = (
                f"{quoted(operation.name)} is no {profile.spec.identity.kind}",
                why,
                f"write {quoted(known.kind)}",
            )
            yield _problem(profile, "D207", words, ("profile", "kind"))


def facts_are_whole(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """A fact that rests on another states that too: nothing is left to be guessed."""
    spec = profile.spec
    yield from _missing(profile, ("auth",), _auth(spec))
    for index, one in enumerate(spec.operations):
        yield from _missing(profile, ("operation", index), _of_operation(one))


def facts_name_what_is_there(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """Fields, models and operations that a fact names are stated."""
    spec = profile.spec
    operations = {one.name for one in spec.operations}
    for place in ("in", "out"):
        for index, media in enumerate(spec.media.in_ if place == "in" else spec.media.out):
            yield from _unknown(profile, ("media", place, index, "operations"), media.operations, operations)
    yield from _unknown(profile, ("probe", "readiness"), spec.probe.readiness, operations)
    for index, one in enumerate(spec.operations):
        path: Path = ("operation", index)
        yield from _unknown(profile, (*path, "required"), one.required, one.fields)
        both = [name for name in one.rejected if name in one.fields]
        for name in both:
            words = (
                f"the field {quoted(name)} is both stated and rejected",
                "a field may be sent or may not",
                "delete one of them",
            )
            yield _problem(profile, "D210", words, (*path, "rejected"))
        for name, field in one.fields.items() if spec.identity.models else ():
            yield from _unknown(
                profile, (*path, "field", name, "models"), field.models or (), spec.identity.models
            )
        for number, rule in enumerate(one.rules):
            named = (*rule.if_.present, *rule.if_.absent, *rule.if_.equals, *rule.then.require)
            named += (*rule.then.reject, *rule.then.enum)
            yield from _unknown(profile, (*path, "rule", number), named, one.fields)


def models_stand_once(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """The list of models is exact."""
    models = profile.spec.identity.models
    for index, model in enumerate(models):
        if model in models[:index]:
            words = (f"the model {quoted(model)} stands twice", "models is an exact list", "delete one")
            yield _problem(profile, "D211", words, ("profile", "models", index))


def secrets_go_in_a_header(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """No key stands in an address, where servers, proxies and logs write it down."""
    scheme = profile.spec.auth.scheme
    if scheme in _NOT_SERVED:
        words = (
            f"the scheme {quoted(scheme)} is not served",
            _NOT_SERVED[scheme],
            'write scheme = "header", with the header by which the server takes a key',
        )
        yield _problem(profile, "D212", words, ("auth", "scheme"))


def published_profile_is_unchanged(view: View, profile: Resource[Profile]) -> Iterator[Problem]:
    """A profile in ``handler.lock`` states what it stated when it was published."""
    locked = view.locked(profile.layer, profile.ref.name)
    if locked is None or locked.digest == f"sha256:{profile.digest}":
        return
    spec = profile.spec.identity
    words = (
        f"{profile.ref.name} is published and states other facts now",
        "what was found out about a profile is true of the facts that it had",
        f"restore the file from version control, or publish it as profiles/{spec.id}/{spec.revision + 1}",
    )
    yield _problem(profile, "D301", words, (), reason="ProfileMutated")


DIALECT_RULES = (dialects_come_with_the_product,)
RULES = (
    dialect_is_registered,
    operations_are_the_dialects,
    operations_are_driven_as_registered,
    facts_are_whole,
    facts_name_what_is_there,
    models_stand_once,
    secrets_go_in_a_header,
    published_profile_is_unchanged,
)


def _dialect(view: View, profile: Resource[Profile]) -> Resource[Dialect] | None:
    found = view.find(ObjectRef(Kind.DIALECT, profile.spec.identity.dialect))
    return found if found is not None and isinstance(found.spec, Dialect) else None  # type: ignore[return-value]


def _problem(
    about: Resource[Profile] | Resource[Dialect],
    code: str,
    words: _Words,
    path: Path,
    *,
    reason: str = "SchemaInvalid",
) -> Problem:
    return Problem(code, *words, Span(about.file), path, about=about.ref, reason=reason)


def _unknown(
    profile: Resource[Profile], path: Path, named: Iterable[str], known: Iterable[str]
) -> Iterator[Problem]:
    there = list(known)
    for name in dict.fromkeys(named):
        if name not in there:
            near = nearest(name, there)
            words = (
                f"{quoted(name)} is not stated",
                "a fact names what the profile states",
                f"write {quoted(near)}" if near else f"state it, or delete {quoted(name)}",
            )
            yield _problem(profile, "D209", words, path)


def _missing(profile: Resource[Profile], path: Path, found: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    for key, because in found:
        words = (f"{quoted(key)} is missing", f"{because}, and nothing is guessed", f"state {key}")
        yield _problem(profile, "D208", words, path)


def _auth(spec: Profile) -> Iterator[tuple[str, str]]:
    """Each fact that the scheme cannot do without."""
    auth = spec.auth
    if auth.scheme in ("bearer", "header") and auth.secret is None:
        yield "secret", f"scheme {auth.scheme} sends a secret"
    if auth.scheme in ("bearer", "header") and auth.header is None:
        yield "header", f"scheme {auth.scheme} sends it by a header"


def _of_operation(one: Operation) -> Iterator[tuple[str, str]]:
    """Each fact of an operation that another of its facts rests on."""
    if one.cancel.mode in ("request", "proved") and one.cancel.path is None:
        yield "cancel.path", f"cancel.mode {one.cancel.mode} asks by a route"
    if one.cancel.mode == "proved" and not one.cancel.proof:
        yield "cancel.proof", "cancel.mode proved knows by a status"
    if one.idempotency.mode == "client-key" and not (one.idempotency.header or one.idempotency.field):
        yield "idempotency.header", "idempotency.mode client-key sends a key"
    if one.stream.meaning != "none" and not one.stream.events and one.stream.framing in ("sse", "ndjson"):
        yield "stream.events", "the events of a stream are a closed list"
    yield from _of_lookup(one)


def _of_lookup(one: Operation) -> Iterator[tuple[str, str]]:
    routes = {"job-id": ("path", one.lookup.path), "key": ("keyPath", one.lookup.key_path)}
    routes["tag"] = ("listPath", one.lookup.list_path)
    for by in one.lookup.by:
        key, route = routes[by]
        if route is None:
            yield f"lookup.{key}", f"it is looked up by {by}"
    if one.lookup.by and not one.lookup.status:
        yield "lookup.status", "what a status means is a closed list"
    if "tag" in one.lookup.by and one.lookup.tag_field is None:
        yield "lookup.tagField", "a tag is sent with the submit"
