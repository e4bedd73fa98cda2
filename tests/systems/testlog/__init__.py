"""A small replicated log server for tests: a messaging system that differs from Pulsar as much as possible.

All nodes have the same role: they serve and store. One node leads. It takes messages in, and acknowledges a message
when a majority of the nodes has written it. The server has no self-repair and no HTTP. Offsets have gaps, because
control records take offsets that no reader gets.

Only tests and `testlog_system` may import this package. It uses only the standard library, and does not know
Brokerproof.

| module | what it defines |
|---|---|
| `server` | the program: one node |
| `configuration` | the program's configuration file |
| `node` | one node of the cluster: terms and elections |
| `leadership` | the work of a leader: replication, commit, handover |
| `peer` | the connection to another node |
| `replica` | a node's copy of the log, and the index up to which it is committed |
| `log`, `ballot` | a node's files |
| `topics` | topics, partitions and subscriptions, made from the committed entries |
| `service` | a node's answers to clients |
| `publishes`, `fetches` | messages that come in and go out |
| `misbehaviour` | how a leader loses, repeats or reorders messages that it acknowledges |
| `session`, `wire`, `record` | requests, frames, messages |
| `client` | the library for clients |
"""
