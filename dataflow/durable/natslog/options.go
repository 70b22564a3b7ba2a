package natslog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Options say which servers keep a log, and how.
type Options struct {
	// URLs are addresses of a cluster, such as nats://10.0.0.1:4222. An address may contain a user
	// and a password. The other servers of the cluster are found automatically. The cluster must
	// have version 2.15 or later and must sync always.
	URLs []string
	// NATS are additional options of the connection, such as nats.UserCredentials,
	// nats.NkeyOptionFromSeed, nats.RootCAs and nats.ClientCert. They cannot change how it
	// reconnects or what it does when the connection is lost.
	NATS []nats.Option
	// SystemURL is the address of one of the servers for a user of its system account, with the
	// options SystemNATS. It is used to ask the servers whether they sync always. If it is empty,
	// URLs are asked, and most clusters do not answer there: such clusters are refused.
	SystemURL  string
	SystemNATS []nats.Option

	// Replicas is how many servers keep each record. Zero means 3. With 1, the loss of a disk loses
	// its history, and nothing works while its server is down.
	Replicas int

	// AssumeDurable skips the check that every server syncs each write to disk. Without it, a
	// server that does not sync always is refused, because a loss of power in several places at
	// once can destroy whole streams.
	AssumeDurable bool

	// MaxStepBytes is the part of [journal.OpenOptions].MaxBytes for steps, states and snapshots.
	// Records use the rest. It must leave room for two snapshots of each partition, or a full log
	// cannot be emptied. Zero means three fifths. Without MaxBytes, it limits only steps, states
	// and snapshots.
	MaxStepBytes int64
}

// Servers returns an opener for a log on a cluster. Several processes may share the log: it is a
// [journal.Shared].
func Servers(o Options) journal.Opener { return servers{o} }

type servers struct{ Options }

func (s servers) Open(ctx context.Context, o journal.OpenOptions) (journal.Log, error) {
	l, err := open(ctx, settings{Options: s.Options, OpenOptions: o})
	if err != nil {
		return nil, err
	}
	return &sharedLog{l}, nil
}

// String names the servers, without users and passwords.
func (s servers) String() string {
	names := make([]string, len(s.URLs))
	for i, url := range s.URLs {
		if at := strings.LastIndexByte(url, '@'); at >= 0 {
			url = url[at+1:]
		}
		names[i] = strings.TrimPrefix(url, "nats://")
	}
	return strings.Join(names, ", ")
}

// Embedded returns an opener for a log in a folder, kept by a server inside this process. The
// server has no listener, and no other process may use the folder at the same time. The folder is
// created if it does not exist.
func Embedded(dir string) journal.Opener { return embeddedIn(dir) }

type embeddedIn string

func (dir embeddedIn) Open(ctx context.Context, o journal.OpenOptions) (journal.Log, error) {
	if dir == "" {
		return nil, errors.New("natslog: Embedded needs the name of a folder")
	}
	l, err := open(ctx, settings{OpenOptions: o, Dir: string(dir)})
	if err != nil {
		return nil, err // not a nil *Log in an interface
	}
	return l, nil
}

// Folder returns the folder of the log.
func (dir embeddedIn) Folder() string { return string(dir) }

func (dir embeddedIn) String() string { return "the embedded server in " + string(dir) }

// settings are all settings of a log. Dir is empty for a log on servers.
type settings struct {
	Options
	journal.OpenOptions
	Dir string
}

// where names the log for messages to people.
func (s *settings) where() string {
	if s.Dir != "" {
		return embeddedIn(s.Dir).String()
	}
	return servers{s.Options}.String()
}

// wellNamed matches names that can be part of a stream's name and one token of a subject.
var wellNamed = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// completed returns the settings with defaults for zeros, or an error if they are invalid.
func (s settings) completed() (settings, error) {
	if s.Name == "" {
		s.Name = "millrace"
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	switch {
	case s.Dir == "" && len(s.URLs) == 0:
		return s, errors.New("natslog: Servers needs the URLs of a cluster")
	case !wellNamed.MatchString(s.Name):
		return s, fmt.Errorf("natslog: the name %q has something else than letters, digits, - and _", s.Name)
	case s.Partitions < 0 || s.Partitions > maxPartitions:
		return s, fmt.Errorf("natslog: %d partitions, there may be 1 to %d", s.Partitions, maxPartitions)
	case s.Replicas < 0 || s.Replicas > 5:
		return s, fmt.Errorf("natslog: %d replicas, there may be 1 to 5", s.Replicas)
	case s.MaxBytes < 0 || s.MaxStepBytes < 0:
		return s, errors.New("natslog: a limit is negative")
	case s.MaxBytes > 0 && s.MaxStepBytes >= s.MaxBytes:
		return s, fmt.Errorf("natslog: MaxStepBytes (%d) is a part of MaxBytes (%d) and leaves nothing for records", s.MaxStepBytes, s.MaxBytes)
	}
	switch {
	case s.Dir != "":
		s.Replicas = 1
	case s.Replicas == 0:
		s.Replicas = 3
	}
	return s, nil
}

// maxPartitions limits the number of subjects of one stream.
const maxPartitions = 4096
