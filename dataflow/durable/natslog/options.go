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
	// URLs are addresses of a cluster, such as nats://10.0.0.1:4222; a user and a password may
	// be part of one. Others of the cluster are found by themselves. The cluster has to be of
	// version 2.15 or later and has to sync always.
	URLs []string
	// NATS are further options of the connection, such as nats.UserCredentials,
	// nats.NkeyOptionFromSeed, nats.RootCAs and nats.ClientCert. How it connects again, and
	// what it does when it is lost, is not theirs to say.
	NATS []nats.Option
	// SystemURL is the address of one of the servers for a user of its system account, with
	// the options SystemNATS. It is asked whether its servers sync always. Empty means that
	// only URLs are asked, and most clusters do not answer those: they are refused then.
	SystemURL  string
	SystemNATS []nats.Option

	// Replicas is how many servers keep each record. Zero means 3. With 1, a disk that is lost
	// takes its history with it, and while its server is down nothing works.
	Replicas int

	// AssumeDurable says that the servers keep what they acknowledge, whatever they say
	// about themselves. Without it a server that does not sync always is refused, because
	// a loss of power in several places at once takes whole streams with it.
	AssumeDurable bool

	// MaxStepBytes is how much of [journal.OpenOptions].MaxBytes is for steps, states and
	// snapshots; what came in has the rest. It has to leave room for two snapshots of each
	// partition, or a full log cannot be emptied. Zero means three fifths. Without MaxBytes it
	// bounds steps, states and snapshots alone.
	MaxStepBytes int64
}

// Servers opens a log on a cluster, which several processes may share: it is a
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

// String names the servers. Addresses may have passwords in them.
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

// Embedded opens a log in a folder, which a server inside this process keeps. The server
// has no listener, and no other process may have the folder at the same time. A folder that
// is not there is made.
func Embedded(dir string) journal.Opener { return embeddedIn(dir) }

type embeddedIn string

func (dir embeddedIn) Open(ctx context.Context, o journal.OpenOptions) (journal.Log, error) {
	if dir == "" {
		return nil, errors.New("natslog: Embedded needs the name of a folder")
	}
	l, err := open(ctx, settings{OpenOptions: o, Dir: string(dir)})
	if err != nil {
		return nil, err // and not a nil *Log in an interface
	}
	return l, nil
}

// Folder returns the folder that the log is in.
func (dir embeddedIn) Folder() string { return string(dir) }

func (dir embeddedIn) String() string { return "the embedded server in " + string(dir) }

// Settings are all that is said about a log. Dir is empty for one on servers.
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

// wellNamed is what can be part of a stream's name and one token of a subject.
var wellNamed = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// completed returns the settings with defaults in place of zeros, or what is wrong.
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

// maxPartitions keeps the subjects of one stream few.
const maxPartitions = 4096
