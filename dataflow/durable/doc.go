// Package durable runs a flow whose history is kept: what was acknowledged is not lost,
// and each key resolves once, whatever is killed.
//
// The same flow that [dataflow.Start] runs in memory is run here on a log: package disklog has
// one in a folder, for one process; package natslog has one on NATS JetStream, on a cluster
// that any number of processes share, or on a server inside the process. A program can have
// its own; see package journal.
//
//	type Ports struct {
//		Votes    *dataflow.KeyedInputPort[string, Vote]
//		Released *dataflow.EntryOutputPort[string, Tally]
//	}
//
//	app, err := durable.Start(ctx, build, durable.Options{Log: disklog.Dir("state")})
//	err = app.Ports.Votes.Send(ctx, "request 1", vote) // durable when it returns
//	tally, err := app.Ports.Released.Await(ctx, "request 1")
//
// # How it works
//
// A location's keys are divided between partitions ([dataflow.Cluster]; a
// [dataflow.Process] is one), by their encoding or, if they have it, by their affinity. Each partition has a log of what came in and a journal of
// steps. Whoever owns the partition takes what came in, makes a step of it, and commits
// the step: how far it took, at what time, and what came out. Only then are outputs
// visible and asynchronous calls begun. Now and then there is a snapshot: of what has changed
// since the one before, as it is after one step, and written while steps go on. A restart loads it
// and makes the steps since then again, in their order and at their times: same history,
// same state, same outputs. Who lost a partition without knowing is refused when it
// commits.
//
// # Snapshots
//
// What a snapshot has is entries of what operators remember, in pieces of at most 256 KiB, so there
// is no largest state. What is written is in proportion to what changes, and what is kept is at
// most about three times the state: with a snapshot, old pieces of which little is left are
// written again and forgotten. The last two snapshots can be used. If a piece of the last one is
// damaged, a start says so, uses the one before and makes the steps since then again; records and
// steps are kept for it. [Metrics].LastSnapshot says how long steps waited for one at most at a
// time: about a millisecond, and up to 8 were seen while 5 million keys came in.
//
// # Damage
//
// A history of which a part is gone, cannot be read, or is older than the rest, is refused
// with a [*DamagedError] when the flow starts, or when it comes to that part. A person can accept
// the loss with the token that the error has: [Salvage] copies what is left. Each record, step,
// snapshot and piece of one says which history and partition it is of and has a checksum, whatever the log
// does; a step has a digest of the step before and of the records that it and all before it
// took, and says up to where records were acknowledged; a record says which step was
// committed when it was sent. What is not noticed: all of a log that is put back as it was
// earlier, unless there is an [Options].Witness, and the last records, if they were acknowledged and lost before another step was
// committed.
//
// # Records that the program cannot handle
//
// A function that panics on a record does not end the flow. The partition is restored, the
// record is found, and it is kept apart ([Letter]) with the operator and the reason; later
// records of its key wait behind it in their order, and other keys go on. A record without a
// key, or on which a function failed for another key, is kept apart alone. The same happens to
// a record that cannot be read, and an asynchronous call that panics, or whose answer cannot be
// kept, is kept apart as well. So is a timer of a state machine or of an entry of After, and one
// firing of an interval, if a function panics that it calls: it does not fire, and its key takes
// further records. What is
// kept apart is part of the history: it is there after a restart, and no step that is made again
// calls the function for it. [App.Quarantine] lists it; [App.Retry] has a mended program handle
// it, [App.Drop] forgets it. What no record and no timer is to blame for stops the partition, such as
// a function that a slice calls. With [Options].EndOnFailure every panic ends the flow.
//
// # Another version of a program
//
// A history knows each operator that remembers something, takes records or gives something by an
// identity: the name of a port, the name that [dataflow.Named] gave it, or else its function,
// what it keeps and what is above it. So operators that remember nothing can be put in and taken
// out, functions can be changed, new operators begin with nothing, and structs can have more
// fields; none of that needs a word. What would lose something, or cannot be told, is refused with
// an [ErrChanged] whose text has the lines for [Options].Upgrade:
//
//	durable.Options{Upgrade: []durable.Change{
//		durable.Was("tally", "keyedstream.Fold[table(string,int)]@{input votes}"),
//		durable.Drop("output lost"),
//		durable.Convert("limits", func(old int) Limit { return Limit{Most: old} }),
//	}}
//
// A process stops in order before a later program goes on: after a crash the later one makes the
// last steps again, and gives up with an [ErrDiverged] if one of its functions gives something
// else. Name what a program keeps from the start, and have a test call [durabletest.Upgrade],
// which finds such changes before a history does.
//
// Processes that share a flow are replaced one by one. A process whose program cannot run a partition
// leaves it to the others: it logs why, [PartitionStatus].Refused says it, and nothing stops. So a
// later program that lacks a line takes nothing from those that run. A partition that the later program
// has changed does not go back to the earlier one. If no process of the later program is left, these
// partitions stop with a [*PartitionError] that is an [ErrChanged], and go on when one is started
// again. [Programs], and `millrace durable upgrade -watch`, show which version runs what; see
// [Options].Version. Going back is restoring a backup.
//
// # Several locations
//
// Each location has partitions of its own, so a step at one knows nothing of the others.
// What a Send moves is part of the step that gave it. When that is durable, the partition's
// owner makes each element a record of the partition where it goes, in order, and then
// makes it part of its own history that it did. After a crash, what is not known to be
// sent is sent again, and a partition takes of each link only what has a higher number than
// what it took before: once in effect. A location that takes nothing, since an output is
// full, slows down those that send to it, except in a circle of locations.
//
// The locations of a flow are fixed when its history is made, like the partitions. There
// are no members ([dataflow.Members]): a [dataflow.Cluster] divides keys itself.
//
// # Several processes
//
// Processes with the same [Options].Name and servers share a flow. Each owns some of the
// partitions and takes over those of one that is gone. Any of them can send and can
// await entries. Elements of a stream's output are those of the partitions that the
// process owns. The latest value of a singleton's is shown to all, a tenth of a second
// later to those who do not own it.
//
// What package dataflow promises a reader who has seen an output holds for the ports of
// the process that owns the partitions concerned: it shows a step at all ports at once,
// when the step is durable and before calls begin and messages leave. A process that does
// not own a partition fetches entries one by one when they are awaited, and the values of a
// location together, all after the same step. So it may have seen an entry and find an
// older value, but never a value of one step and, after that, of another output an older
// one. There is no order between partitions of a location.
//
// A process that sends to a partition of another one may run another version of the program.
// Before its first record it compares the types of the input with those that the history has,
// and returns [ErrChanged] if the owner would misread the record: another type, or a struct of
// which a field was renamed or is of another kind. A field that only one of the two has is left
// out, or zero. Nobody may own the partition then. So a sender that has no answer after two
// seconds sends the types along, and a record that does not fit is quarantined. The same holds
// for what it awaits.
//
// # Batches
//
// A send waits for a disk, or for several servers, and one sender makes only so many sends a
// second. A batch ([dataflow.KeyedInputPort.SendBatch], [dataflow.EntryInputPort.PutBatch] and
// their like) waits once for all of its records. They are divided by partition, and appended
// to all partitions at the same time: of each at most 512 KiB at once, and less if the log
// takes less. The records of a partition keep their order, and none is appended behind one that
// could not be. If a batch fails, its first n records are durable, and others may be. So who
// repeats the rest numbers it.
//
// # Sending again
//
// A Send whose context has ended, or that returned another error, may have been kept. Who
// sends the record again without a number sends it at least once. So there are two ways to
// be sure of one that was not acknowledged: number the sends ([dataflow.InputPort.SendNumbered],
// [dataflow.EntryInputPort.PutNumbered] and their like), and it is taken once, also by a
// sender that starts again after a crash; or let the type say that records may come again
// ([dataflow.RetriedInput]). A partition remembers the last number of each input, key or
// sender, of a million of them, until nothing has come of one for seven days of the history's
// time: a repeat counts again then. A Put without a number that is made again may be refused
// because of the first one.
//
// An ordered input has one sender in all processes together, and the race detector sees one
// process at a time. If several send to it nevertheless, each partition has their records in
// the order in which its log kept them, which is the same in every process and after every
// restart: a matter of timing once, and then decided. If they number their sends, they lose
// records. Processes that send the same kind of thing use [dataflow.SenderInput], each with
// its own name as the id, or an input without order. The order of an input at a
// [dataflow.Cluster] is that within a partition.
//
// # Operations
//
// [App.Health] says how a flow is, and package monitor serves that to probes and Prometheus. [Check]
// says whether what is kept fits together, [History.Verify] whether the program makes the same of it.
// [App.History] and [OpenHistory] go to any step that is kept: what it took, and what operators remembered then. Package
// inspect has pages of it.
// [App.Backup] copies what is kept to another log while the flow runs, and [Copy] one that no process has
// open: to restore a backup is to copy it to where it is to run. A handler of package monitor makes backups on
// request, for a log in a folder that no other process can open meanwhile.
//
// # What is asked of a program
//
// Functions given to operators depend on their arguments alone. A step that gives
// something else when it is made again stops its partition with [ErrDiverged]; and so does one after
// which an operator remembers something else, if it is one of those that are kept with a digest of
// what they have changed: [Options].Digest.
//
// Types of records and of what operators remember can be encoded; others are refused
// when the flow is built. See [CBOR].
//
// Asynchronous calls are made again after a crash if their answer was not kept: give
// them the key, and let the other side recognize it. They are made once steps have taken the
// records that the log had, since the answer may be among these.
//
// A step may take records that are not durable yet, if the log is of one process, as disklog
// is. They are when the step is, and nothing of it is shown before.
//
// [durabletest.Upgrade]: https://pkg.go.dev/github.com/millrace/millrace/dataflow/durable/durabletest#Upgrade
package durable
