"""A small replicated log server that exists for tests only: a messaging system that is as unlike Pulsar as possible.

Nodes have one role: each serves and stores. One of them leads; it takes messages in, and acknowledges a message when a
majority of the nodes has written it. There is no self-repair, no HTTP, and offsets have gaps, because control records
take offsets that no reader ever gets.

Only tests and a system's adapter for tests may import this package. It uses the standard library alone and knows
nothing of Brokerproof.

| module | what it defines |
|---|---|
| `server` | the program: one node |
| `configuration` | what the program reads |
| `node` | one node of the cluster: terms and elections |
| `leadership` | what a node does while it leads: replication, commit, handing over |
| `peer` | the connection to another node |
| `replica` | what a node holds: its log, and up to where it is committed |
| `log`, `ballot` | what a node has on disk |
| `topics` | topics, partitions and subscriptions, made from the committed entries |
| `service` | what a node answers to clients |
| `publishes`, `fetches` | messages that come in and go out |
| `misbehaviour` | how a leader loses, repeats or reorders what it acknowledges |
| `session`, `wire`, `record` | requests, frames, messages |
| `client` | the library for clients |
"""
