package durable

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// Options say where a flow's history is kept and how. The zero value keeps it under
// the folder "millrace" of the working directory, in a server inside this process.
type Options struct {
	// Name tells applications apart that share servers. The default is "millrace".
	Name string

	// Dir is the folder of the server inside this process. The default is "millrace".
	// Only one process can have it at a time.
	Dir string

	// Servers are the addresses of a NATS cluster, such as nats://10.0.0.1:4222, instead
	// of a server inside this process. The cluster has to be of version 2.15 or later
	// and has to sync always.
	Servers []string
	// Credentials is a file with the credentials for the cluster.
	Credentials string
	// Replicas is how many servers of a cluster keep each record. Zero means 3.
	Replicas int
	// SystemServer is the address of one of the servers for a user of its system account,
	// with SystemCredentials if it needs some. It is asked whether the servers sync always.
	SystemServer, SystemCredentials string
	// AssumeDurable accepts servers of which it cannot be found out, or is not true, that
	// they sync always. What was acknowledged may then be lost when power is.
	AssumeDurable bool

	// Client makes this process one that owns no partition: it sends, awaits entries and
	// makes nothing of what came in. It needs Servers. Outputs other than entries have
	// nothing here, since they are given where a partition is owned.
	Client bool

	// Partitions is in how many parts the keys of a [dataflow.Cluster] location are
	// divided, for each such location. It is fixed when the history is made, and so are
	// the locations. Zero means 16. A [dataflow.Process] location has one.
	Partitions int

	// Member is this process's name among those that run the flow. The default is made
	// up. Lease is how long a member that is not heard of keeps its partitions if it
	// cannot be asked, and how long one that hears nothing thinks that it has them; a
	// process that died is noticed within a tenth of a second without it. Servers elect a
	// new leader in 4 to 9 s, so with less than that all members own nothing for a moment.
	// Zero means 10 s.
	Member string
	Lease  time.Duration

	// SnapshotBytes and SnapshotAge are how much history, and how old, lies behind a
	// snapshot at most before there is a new one. Zero means 16 MiB and a minute.
	// A restart goes through that much history.
	SnapshotBytes int
	SnapshotAge   time.Duration
	// KeepHistory keeps what is behind a snapshot, for looking at with `millrace log`.
	KeepHistory bool

	// StepBytes bounds the records of one step. Zero means 1 MiB.
	StepBytes int
	// MaxBytes bounds the history on disk. Zero means no bound. When it is reached,
	// sends wait.
	MaxBytes int64

	// Migrate says what becomes of the state when the program has changed; see
	// [Migration]. Nil refuses a changed program.
	Migrate func(*Migration) error

	// LeaveWithin bounds how long Stop works on a last snapshot. Zero means 10 s.
	LeaveWithin time.Duration

	// Now is the clock that tells, when a partition is restored, how much time has passed
	// while nobody had it. Timers that run do not ask it. Nil means [time.Now].
	Now func() time.Time

	Codec  Codec            // nil means [CBOR]
	Flow   dataflow.Options // of the flow; Record is not for durable flows
	Logger *slog.Logger     // nil means slog.Default()

	testLog // instead of all that
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Name = cmp.Or(o.Name, "millrace")
	o.Dir = cmp.Or(o.Dir, "millrace")
	o.Replicas = cmp.Or(o.Replicas, 3)
	if log := o.log(); log != nil {
		o.Partitions = cmp.Or(o.Partitions, log.Partitions())
	}
	o.Partitions = cmp.Or(o.Partitions, 16)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, 16<<20)
	o.SnapshotAge = cmp.Or(o.SnapshotAge, time.Minute)
	o.StepBytes = cmp.Or(o.StepBytes, 1<<20)
	o.LeaveWithin = cmp.Or(o.LeaveWithin, 10*time.Second)
	o.Flow.Record = nil
	if o.Codec == nil {
		o.Codec = CBOR()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
