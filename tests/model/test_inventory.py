"""A tree knows what it could not read; an inventory finds objects by kind."""

from reconciler.model.inventory import Fault, Inventory, Layer, Resource, Tree
from reconciler.model.names import Kind, ObjectRef
from reconciler.model.resources import Binding, Config


def test_what_lies_below_an_unread_folder_is_not_gone() -> None:
    tree = Tree("r", {}, {"agents": Fault("unreadable"), "bindings/a.toml": Fault("symlink")})
    assert tree.unread("agents/clerk.toml") == Fault("unreadable")
    assert tree.unread("bindings/a.toml") == Fault("symlink")
    assert tree.unread("bindings/b.toml") is None
    assert tree.unread("agentsmith/x") is None


def test_an_object_is_found_by_its_kind_and_only_with_its_type() -> None:
    spec = Binding.model_validate({"apiVersion": "handler.binding/v1", "connector": "x"})
    ref = ObjectRef(Kind.BINDING, "a")
    resource = Resource(ref, Layer.CONFIG, "bindings/a.toml", "d", spec, {})
    odd = Resource(ObjectRef(Kind.AGENT, "a"), Layer.CONFIG, "agents/a.toml", "d", spec, {})
    inventory = Inventory("r", {ref: resource, odd.ref: odd}, (), {}, {}, {})
    assert inventory.binding("a") is resource
    assert inventory.agent("a") is None
    assert inventory.binding("b") is None
    assert inventory.project("a") is None
    assert inventory.connector("a") is None
    assert inventory.interface("a") is None
    assert inventory.names(Kind.BINDING) == ("a",)
    assert inventory.config() == Config()
