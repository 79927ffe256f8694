"""May this leave, and where to? The one way out of a sandbox: an allow-list of exact hosts and ports.

Lives here: which addresses are public (``addresses``), the CONNECT request (``connect``) and the TLS greeting
(``hello``) read strictly, all pure; what is said of each attempt (``decisions``); and the shell that serves
one sandbox (``proxy``). How a host is spelled is ``model.hosts``. It may import model and wire. It never
starts processes, never reads configuration and never sees inside a tunnel. Face: ``proxy.Proxy``.

A sandbox has an empty network namespace; ``runtime.netns`` opens one listening socket in it, and what comes
through that socket meets the rules here. Policies, purposes and the gate that sends for connectors are not
built yet.
"""
