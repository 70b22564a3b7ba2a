// Package natslog keeps the log of a durable flow on NATS JetStream: on a cluster that several
// processes share ([Servers]), or on a server inside the process, with its files in one folder
// ([Embedded]). [Log] is the open log.
//
// # Streams and subjects
//
//	IN_<name>  <name>.in.<p>    messages of records, as they came in
//	ST_<name>  <name>.jr.<p>    steps, one message each; its sequence is the fence
//	           <name>.jp.<p>    pieces of steps that are larger than a message
//	           <name>.snap.<p>  the latest snapshot, or the list of its pieces
//	           <name>.sp.<p>    pieces of snapshots
//	           <name>.pc.<p>    pieces of states
//	           <name>.pg.<p>    up to where records were purged
//
// A message contains the records of all callers that appended while the previous message was in
// progress, because one fsync costs the same for one record and for a thousand. Its Nats-Msg-Id
// makes a retried message count once. A step is one message with
// Nats-Expected-Last-Subject-Sequence. If the servers refuse that sequence, the error is
// journal.ErrFenced. A step also contains the fence that it was committed with, so a reader notices
// if one is missing.
//
// # Guarantees
//
// Acknowledged data is on the disk of the embedded server, or of a majority of replicas.
//
// An append whose answer was lost is repeated under the same id for as long as servers remember
// ids, with some time to spare. Then it fails, and the records may or may not have been added. This
// does not cover a server that was frozen for longer than that with a message in its buffers: then
// the record may be added twice. A commit is never repeated.
//
// # Slow connections
//
// A request for a message whose answer does not come is repeated, with twice as much time for the
// answer: up to 5 seconds, and a second for every 2 MiB of the largest message that the servers take.
// A connection has to carry that much. On a slower one pings wait behind large messages for so long
// that the connection counts as lost.
//
// Source: ADR-31 and ADR-50 of NATS.
package natslog
