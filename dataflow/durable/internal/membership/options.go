package membership

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
)

// Limits of the options. MaxInfo is in bytes; all members receive the Info of all, with each renewal.
const (
	MaxPartitions = 1 << 16
	MaxInfo       = 4 << 10 // bytes
)

// Options are the settings of a member. Name and Partitions are required.
type Options struct {
	// Name is the name of the application: letters, digits, - and _. The bucket of leases is called
	// MEMBERS_<Name>, and the subjects of probes begin with it.
	Name string

	// ID identifies this member, in the same alphabet. Empty means a random one. A second member with the same
	// ID supersedes the first.
	ID string

	// Partitions is the number of partitions. It must be the same for all members and forever.
	Partitions int

	// Lease is how long a silent member counts as a member. It is rounded up to whole seconds, the unit of the
	// server. Zero means 3 seconds; less than 1 second is refused. It is renewed after a third of it.
	Lease time.Duration

	// Probe is how often other members are asked whether they are alive. Zero means 50 ms; negative means
	// never, so that only leases count.
	Probe time.Duration

	// Replicas is how many servers store the leases. Zero means 3 in a cluster, else 1.
	Replicas int

	// Info is shown to other members, for example an address. It has at most [MaxInfo] bytes.
	Info []byte

	// Logger logs changes. Nil means that nothing is logged.
	Logger *slog.Logger
}

// withDefaults fills in defaults, and returns an error if an option is out of range.
func (o Options) withDefaults(nc *nats.Conn) (Options, error) {
	word := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	if o.ID == "" {
		o.ID = rand.Text()
	}
	if o.Lease == 0 {
		o.Lease = 3 * time.Second
	}
	if o.Probe == 0 {
		o.Probe = 50 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case nc == nil:
		return o, fmt.Errorf("%w: no connection", ErrOptions)
	case !word.MatchString(o.Name):
		return o, fmt.Errorf("%w: Name %q is not 1 to 64 letters, digits, - and _", ErrOptions, o.Name)
	case !word.MatchString(o.ID):
		return o, fmt.Errorf("%w: ID %q is not 1 to 64 letters, digits, - and _", ErrOptions, o.ID)
	case o.Partitions < 1 || o.Partitions > MaxPartitions:
		return o, fmt.Errorf("%w: Partitions is %d, not 1 to %d", ErrOptions, o.Partitions, MaxPartitions)
	case o.Lease < time.Second:
		return o, fmt.Errorf("%w: Lease is %v, and the server counts no less than a second", ErrOptions, o.Lease)
	case o.Replicas < 0 || o.Replicas > 5:
		return o, fmt.Errorf("%w: Replicas is %d, not 1 to 5", ErrOptions, o.Replicas)
	case len(o.Info) > MaxInfo:
		return o, fmt.Errorf("%w: Info has %d bytes, more than %d", ErrOptions, len(o.Info), MaxInfo)
	}
	o.Lease = (o.Lease + time.Second - 1).Truncate(time.Second)
	return o, nil
}
