"""May these exact bytes leave, once? Not built yet: no connector has any network today.

Will hold: policies, decisions, the gate process and the CONNECT proxy. A connector that lists ``egress``
is admitted, runs without any network, and its binding says so in the condition ``EgressReady``.
"""
