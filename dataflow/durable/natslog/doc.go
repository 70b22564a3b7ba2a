// Package natslog keeps the log of a durable flow on NATS JetStream: on a cluster, which
// several processes share ([Servers]), or on a server inside the process, with its files in
// one folder ([Embedded]).
//
// # What is where
//
//	IN_<name>  <name>.in.<p>    messages of records, as they came in
//	ST_<name>  <name>.jr.<p>    steps, one message each; its sequence is the fence
//	           <name>.jp.<p>    pieces of steps that are larger than a message
//	           <name>.snap.<p>  the latest snapshot, or the list of its pieces
//	           <name>.sp.<p>    pieces of snapshots
//	           <name>.pg.<p>    up to where records were purged
//
// A message has the records of all who appended while the message before it was under
// way, because one fsync costs the same for one record and for a thousand. Its
// Nats-Msg-Id makes a retried message one. A step is one message with
// Nats-Expected-Last-Subject-Sequence, whose refusal is journal.ErrFenced; it carries the
// fence it was committed with, so whoever reads steps sees that none is missing.
//
// # What is promised
//
// What was acknowledged is on the disk of the embedded server, or of a majority of
// replicas. An append whose answer was lost is repeated under the same id for as long as
// servers remember ids, with some time to spare; then it fails, and may be there or not. What
// this cannot see is a server that was frozen for longer than that with a message in its
// buffers: the record can be there twice then. A commit is never repeated.
//
// Source: the engine study of this project, section 4; ADR-31 and ADR-50 of NATS.
package natslog
