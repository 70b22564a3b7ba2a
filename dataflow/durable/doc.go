// Package durable runs a flow and keeps its history in a log, so that acknowledged records survive crashes and
// each key resolves exactly once, whatever is killed.
//
// [Start] runs the same flow that [dataflow.Start] runs in memory. The log comes from package disklog (a
// folder, for one process) or package natslog (NATS JetStream: a cluster that any number of processes share, or
// a server inside the process). A program can also bring its own log; see package journal.
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
// The keys of a location are divided between partitions ([dataflow.Cluster]; a [dataflow.Process] is a single
// partition), by their affinity if they have one, else by their encoding. Each partition has a log of incoming
// records and a journal of steps. The owner of a partition takes records from the log, makes a step of them,
// and commits the step: how far it took records, at what time, and what came out. Only then does it show
// outputs and begin asynchronous calls. From time to time it writes a snapshot, which contains what has changed
// since the previous snapshot, as of one step, and is written while steps go on. A restart loads the snapshots
// and replays the steps since then in their order and at their times: the same history gives the same state and
// the same outputs. An owner that has lost its partition without knowing it is refused when it commits.
//
// # Snapshots
//
// A snapshot holds the entries that operators remember, in pieces of at most 256 KiB, so there is no largest
// state. Writing a snapshot costs in proportion to what changed. The log holds at most about three times the
// state: a snapshot rewrites old pieces of which little is still needed, and deletes them. The last two
// snapshots are usable. If a piece of the last one is damaged, a start reports it, uses the previous snapshot,
// and replays the steps since then; their records and steps are kept for this. [Metrics].LastSnapshot is the
// longest time that steps waited for a snapshot at a stretch: usually about a millisecond, and up to 8 ms when
// 5 million keys came in.
//
// # Damage
//
// A history with a part that is missing, unreadable, or older than the rest is refused with a [*DamagedError],
// when the flow starts or when it reaches that part. A person can accept the loss with the token in the error:
// [Salvage] copies what is left. Each record or batch of records, step, snapshot and piece names its history and
// partition and has a checksum, whatever the log does. A step has a digest of the previous step and of the
// records taken so far, and says up to where records were acknowledged. A record says which step was committed
// when it was sent. Two kinds of loss go unnoticed: a whole log that is replaced by an earlier copy, unless there
// is an [Options].Witness; and the last records, if they were acknowledged and lost before another step was
// committed.
//
// # Records that the program cannot handle
//
// A function that panics on a record does not end the flow. The partition is restored, the failing record is
// found, and it is quarantined ([Letter]) with the operator and the reason. Later records of its key wait
// behind it in their order; other keys go on. A record that has no key, or on which a function failed for
// another key, is quarantined alone.
//
// The same happens to a record that cannot be decoded, to an asynchronous call that panics or whose answer
// cannot be stored, and, if a function panics that they call, to a timer of a state machine, a timer of an
// entry of After, and one firing of an interval. A quarantined timer does not fire, and its key takes further
// records.
//
// The quarantine is part of the history: it survives a restart, and replaying steps does not call the function
// for a quarantined record. [App.Quarantine] lists it, [App.Retry] has a corrected program handle a record, and
// [App.Drop] forgets one. A panic that no record and no timer causes, such as in a function called by a slice,
// stops the partition. With [Options].EndOnFailure every panic ends the flow.
//
// # Another version of a program
//
// A history identifies each operator that remembers something, takes records or gives output by the name of its
// port, by the name that [dataflow.Named] gave it, or else by its function, its state and the operators above
// it. So a new version may add and remove operators that remember nothing, change functions, add operators
// (which begin empty) and add fields to structs, without further declaration. A new field of a key that several
// partitions share needs the option omitzero in its tag, since the key's encoding says where it is. A tag must
// not give a field another name: a start is refused if the saved state has the field under the earlier one, and
// records that wait are not compared. A change that would lose something, or whose meaning is ambiguous, is
// refused with an [ErrChanged] whose text has the lines for [Options].Upgrade:
//
//	durable.Options{Upgrade: []durable.Change{
//		durable.Was("tally", "keyedstream.Fold[table(string,int)]@{input votes}"),
//		durable.Drop("output lost"),
//		durable.Convert("limits", func(old int) Limit { return Limit{Most: old} }),
//	}}
//
// Stop a process in an orderly way before a later program takes over. After a crash the later program replays
// the last steps, and fails with an [ErrDiverged] if one of its functions gives a different result. Name what a
// program keeps from the start, and have a test call [durabletest.Upgrade], which finds such changes before a
// history does.
//
// Processes that share a flow are replaced one by one. A process whose program cannot run a partition leaves it
// to the others: it logs the reason, reports it in [PartitionStatus].Refused, and nothing stops. So a later
// program with a missing Upgrade line takes nothing away from the running processes. A partition that the later
// program has changed does not go back to the earlier one. If no process of the later program is left, such
// partitions stop with a [*PartitionError] that is an [ErrChanged], and go on when one is started again.
// [Programs] and `millrace durable upgrade -watch` show which version runs what; see [Options].Version. To go
// back to an earlier program, restore a backup.
//
// # Several locations
//
// Each location has its own partitions, so a step at one location knows nothing of the others. An element that
// a Send moves to another location is part of the step that gave it. When that step is durable, the owner of
// the partition appends each element, in order, as a record of the destination partition, and then notes in
// its own history that it did. After a crash, everything not known to be sent is sent again. A partition takes
// from each edge only numbers higher than the last one it took, so each element takes effect once. A location
// that takes nothing because an output is full slows down the locations that send to it, except in a cycle of
// locations.
//
// The locations of a flow are fixed when its history is made, like the partitions. [dataflow.Members] is not
// supported: a [dataflow.Cluster] divides keys itself.
//
// # Several processes
//
// Processes with the same [Options].Name and servers share a flow. Each owns some of the partitions and takes
// over those of a process that is gone. Any process can send and can await entries. The output of a stream
// gives a process only the elements of the partitions that it owns. Every process sees the latest value of a
// singleton's output; one that does not own its partition sees it a tenth of a second later.
//
// Package dataflow promises a reader who has seen one output what other outputs show. That promise holds for
// the ports of the process that owns the partitions concerned: it shows a step at all ports at once, when the
// step is durable and before calls begin and messages leave. A process that does not own a partition fetches
// entries one by one when they are awaited, and the values of a location together, all as of the same step. So
// after an entry it may see an older value, but after a value of one step it never sees an older value of
// another output. There is no order between the partitions of a location.
//
// A process that sends to a partition of another process may run another version of the program. Before its
// first record it compares the types of the input with those in the history, and returns [ErrChanged] if the
// owner would misread the record: a different type, or a struct with a renamed field or a field of another
// kind. A field that only one side has is left out, or zero. The partition may have no owner at that time. So a
// sender that has no answer after two seconds sends its types with the record, and a record that does not fit
// is quarantined. The same holds for what a process awaits.
//
// # Batches
//
// A send waits for a disk or for several servers, which limits how many sends one sender can make per second. A
// batch ([dataflow.KeyedInputPort.SendBatch], [dataflow.EntryInputPort.PutBatch] and the like) waits once for
// all of its records. It divides them by partition and appends to all partitions at the same time, about 2
// MiB to each at once, or less if the log accepts less. The records of a partition keep their order, and none
// is appended after one that failed. If a batch fails, its first n records are durable, and others may be. So
// number the records if you repeat the rest.
//
// # Sending again
//
// A Send that returns an error, or whose context has ended, may still have been stored. Repeating it without a
// number delivers the record at least once. There are two ways to be sure of an unacknowledged record. One is
// to number the sends ([dataflow.InputPort.SendNumbered], [dataflow.EntryInputPort.PutNumbered] and the like):
// each is then taken once, even if the sender restarts after a crash. The other is a type that says that
// records may be repeated ([dataflow.RetriedInput]). A partition remembers the last number of each input, key
// or sender, for up to a million of them, until one has sent nothing for seven days of the history's time;
// after that a repeat counts again. A repeated Put without a number may be refused because of the first one.
//
// An ordered input has one sender across all processes, but the race detector sees only one process at a time.
// If several send to it nevertheless, each partition has their records in the order in which its log stored
// them. That order depends on timing once, and is then the same in every process and after every restart. If
// several senders number their sends, records are lost. Processes that send the same kind of record should use
// [dataflow.SenderInput], each with its own name as the id, or an unordered input. The order of an input at a
// [dataflow.Cluster] is the order within a partition.
//
// # Operations
//
// [App.Health] reports the state of a flow, and package monitor serves it to probes and Prometheus. [Check]
// tests whether the stored history is consistent, and [History.Verify] whether the program still makes the same
// of it. [App.History] and [OpenHistory] go to any step that is kept, and show what it took and what operators
// remembered after it. Package inspect serves pages of this. [App.Backup] copies the history to another log
// while the flow runs, and [Copy] copies one that no process has open; to restore a backup, copy it to where it
// is to run. A handler of package monitor makes backups on request, for a log in a folder that no other process
// can open meanwhile.
//
// # Requirements on a program
//
// The result of a function given to an operator depends on its arguments alone. If a replayed step gives a
// different result, its partition stops with [ErrDiverged]. The partition also stops if an operator remembers
// something different after a replayed step, provided that the step was stored with a digest of its changes:
// [Options].Digest.
//
// The types of records and of operator state must be encodable; other types are refused when the flow is built.
// See [CBOR].
//
// Asynchronous calls are repeated after a crash if their answer was not stored: give them the key, and let the
// other side recognize it. They are repeated after steps have taken the records that were in the log at the
// restart, since the answer may be among those.
//
// If the log belongs to one process, as disklog does, a step may take records that are not durable yet. They
// are durable when the step is, and nothing of the step is shown before.
//
// [durabletest.Upgrade]: https://pkg.go.dev/github.com/millrace/millrace/dataflow/durable/durabletest#Upgrade
package durable
