package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/internal/natstest"
)

// Servers are nats-server processes on loopback ports that sync every write.
type servers struct {
	t testing.TB
	*natstest.Servers
}

// startServers starts n servers, as a cluster if n > 1, and waits until they can create
// streams.
func startServers(t testing.TB, n int) *servers {
	t.Helper()
	s := &servers{t, natstest.Start(t, n, natstest.Config{
		JetStream: "sync_interval: always",
		Cluster:   "no_advertise: true", // a process that is cut off must not learn another route
	})}
	s.ready(n)
	return s
}

// ready waits until a stream can be created with the given number of replicas.
func (s *servers) ready(replicas int) {
	s.t.Helper()
	eventually(s.t, func(ctx context.Context) error {
		nc, err := nats.Connect(strings.Join(s.URLs(""), ","))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "READY", Replicas: replicas}); err != nil {
			return err
		}
		return js.DeleteStream(ctx, "READY")
	})
}

// healthy waits until all replicas of all streams are current.
func (s *servers) healthy() {
	s.t.Helper()
	eventually(s.t, func(ctx context.Context) error {
		nc, err := nats.Connect(strings.Join(s.URLs(""), ","))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		list, n := js.ListStreams(ctx), 0
		for info := range list.Info() {
			n++
			if info.Cluster == nil || info.Cluster.Leader == "" {
				return fmt.Errorf("%s has no leader", info.Config.Name)
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline {
					return fmt.Errorf("a replica of %s is behind: %+v", info.Config.Name, r)
				}
			}
		}
		if n == 0 {
			return errors.Join(errors.New("no streams"), list.Err())
		}
		return list.Err()
	})
}
