package jetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
)

// Unreplicated, as [Options.Replicas], keeps one copy of everything in a cluster: a disk
// that is lost takes its history with it, and while its server is down nothing works.
const Unreplicated = -1

// Options say where a log is kept. One of Dir and Servers must be given.
type Options struct {
	// Dir makes the log embedded: a server in this process, without a listener, keeps it
	// in this directory, which no other process may have at the same time. A directory
	// that is not there is made.
	Dir string

	// Servers are addresses of a cluster, such as nats://10.0.0.1:4222; a user and a
	// password may be part of one. Others of the cluster are found by themselves.
	Servers []string
	// Credentials is a file with the credentials for Servers; empty means none.
	Credentials string
	// SystemServer and SystemCredentials give access to the system account of the
	// cluster, which is asked whether its servers sync always. Empty means that only
	// Servers are asked, and most clusters do not answer those: they are refused then.
	SystemServer, SystemCredentials string

	// Name is that of the application, which several processes share: letters, digits,
	// - and _. Empty means "millrace".
	Name string
	// Partitions is how many there are. It is fixed when the log is created. Zero means
	// as many as there are, or 1 for a new log.
	Partitions int
	// Replicas is how many servers keep everything. Zero means 3; [Unreplicated] means 1,
	// which cannot be had by writing 1. The embedded server keeps one copy.
	Replicas int

	// AssumeDurable says that the servers keep what they acknowledge, whatever they say
	// about themselves. Without it a server that does not sync always is refused, because
	// a loss of power in several places at once takes whole streams with it.
	AssumeDurable bool

	// MaxBytes is how much of what came in is kept before Append returns ErrFull. Zero
	// means as much as the servers take.
	MaxBytes int64
	// MaxJournalBytes is the same for steps and snapshots. It has to leave room for two
	// snapshots of each partition, or a full log cannot be emptied. Zero means as much as
	// the servers take.
	MaxJournalBytes int64

	// Existing says that the log has to be there already: nothing is created, and Open
	// returns journal.ErrMissing if there is none.
	Existing bool

	// Logger gets what the operator of the system should know. Nil means slog.Default.
	Logger *slog.Logger
}

// wellNamed is what can be part of a stream's name and one token of a subject.
var wellNamed = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// completed returns the options with defaults in place of zeros, or what is wrong.
func (o Options) completed() (Options, error) {
	if o.Name == "" {
		o.Name = "millrace"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case (o.Dir == "") == (len(o.Servers) == 0):
		return o, errors.New("journal: give a directory for the embedded server or the servers of a cluster, and not both")
	case !wellNamed.MatchString(o.Name):
		return o, fmt.Errorf("journal: the name %q has something else than letters, digits, - and _", o.Name)
	case o.Partitions < 0 || o.Partitions > maxPartitions:
		return o, fmt.Errorf("journal: %d partitions, there may be 1 to %d", o.Partitions, maxPartitions)
	case o.Dir != "" && (o.Replicas != 0 || o.Credentials != "" || o.SystemServer != ""):
		return o, errors.New("journal: the embedded server keeps one copy and needs no credentials: leave Replicas, Credentials and SystemServer out")
	case o.Replicas == 1:
		return o, errors.New("journal: one replica is lost with its disk: if you mean it, say Replicas: Unreplicated")
	case o.Replicas < Unreplicated || o.Replicas > 5:
		return o, fmt.Errorf("journal: %d replicas, there may be 2 to 5", o.Replicas)
	case o.MaxBytes < 0 || o.MaxJournalBytes < 0:
		return o, errors.New("journal: a limit is negative")
	}
	switch {
	case o.Dir != "" || o.Replicas == Unreplicated:
		o.Replicas = 1
	case o.Replicas == 0:
		o.Replicas = 3
	}
	return o, nil
}

// maxPartitions keeps the subjects of one stream few.
const maxPartitions = 4096
