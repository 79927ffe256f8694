"""What the clients of the matrix call: a connector that answers, fails, tells its progress, and hears of
cancelling. For the sandbox.
"""

import hashlib
import threading
from pathlib import Path

from handler_connector import Failure, serve

CHUNK = 2**20
heard_of = {}  # tag → whether the call that carried it was cancelled
gates = {}  # tag → what a call of `steps` waits for
lock = threading.Lock()


def echo(args, call):
    return {"text": args["text"]}


def fail(args, call):
    raise Failure(args["code"], "the vendor's words: quota of key sk-canary exceeded at acme.example")


def steps(args, call):
    """Tell of the first step, wait until the client has heard of it, then go on to the end."""
    call.progress(1, args["steps"])
    freed(args["tag"]).wait(60)
    for done in range(2, args["steps"] + 1):
        call.progress(done, args["steps"])
    return {"text": f"{args['steps']} steps"}


def release(args, call):
    freed(args["tag"]).set()
    return {"text": "released"}


def freed(tag):
    with lock:
        return gates.setdefault(tag, threading.Event())


def wait(args, call):
    """Tell that it has begun, then wait until nobody waits for it any more."""
    call.progress(1, 100)
    cancelled = call.cancelled.wait(60)
    with lock:
        heard_of[args["tag"]] = cancelled
    return {"text": "nobody cancelled"}


def seen(args, call):
    with lock:
        return {"text": "cancelled" if heard_of.get(args["tag"]) else "not yet"}


def measure(args, call):
    digest, size = hashlib.sha256(), 0
    with Path(args["path"].path).open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"text": digest.hexdigest(), "size": size}


def fill(args, call):
    block, left = bytes(range(256)) * (CHUNK // 256), args["size"]
    with args["path"].open() as file:
        while left:
            left -= file.write(block[:left])
    return {"text": "written", "size": args["size"]}


serve({f"drill_{act.__name__}": act for act in (echo, fail, steps, release, wait, seen, measure, fill)})
