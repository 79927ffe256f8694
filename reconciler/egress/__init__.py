"""May this leave, and where to? The two ways out of a sandbox: an allow-list of exact hosts and ports.

Lives here: which addresses are public (``addresses``), the CONNECT request (``connect``), the TLS greeting
(``hello``) and a request to the gate (``asked``) read strictly, all pure; what is said of each attempt
(``decisions``); how a listed name becomes a connection (``reaching``); the shell that carries bytes for one
sandbox (``proxy``); and the one that sends for a connector and adds its secrets (``gate``), in a process of
its own (``gatehouse``) that the controller speaks to by messages (``post``). How a host is spelled is
``model.hosts``. It may import model, wire and runtime's redaction. It never starts processes and never reads
configuration. Faces: ``proxy.Proxy``, ``gate.Gate``.

A sandbox has an empty network namespace; ``runtime.netns`` opens one listening socket in it, and what comes
through that socket, or through the gate's, meets the rules here. The controller is asked before anything is
sent; what it says where there is a policy is decided here too, purely: ``policy`` (classes, labels, sums),
``decide`` (one case), ``permits`` (one use of one decision), ``receipts`` (the chain of what was decided).
"""
