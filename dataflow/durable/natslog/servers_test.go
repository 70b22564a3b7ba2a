package natslog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	jsapi "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/internal/natstest"
)

// Servers are nats-server processes on loopback ports, with the users app and sys.
type servers struct{ *natstest.Servers }

// startServers starts n servers, as a cluster if n > 1.
func startServers(t testing.TB, n int, sync string) *servers {
	t.Helper()
	return &servers{natstest.Start(t, n, natstest.Config{JetStream: sync, Top: `
accounts {
  APP { jetstream: enabled, users: [{user: app, password: app}] }
  SYS { users: [{user: sys, password: sys}] }
}
system_account: SYS`})}
}

// urls returns the addresses with the credentials of a user.
func (s *servers) urls(user string) []string { return s.URLs(user + ":" + user) }

// leader returns the server that leads a stream.
func (s *servers) leader(t testing.TB, nc *nats.Conn, stream string) *natstest.Node {
	js, err := jsapi.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var leads *natstest.Node
	eventually(t, func(ctx context.Context) error {
		st, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		name := st.CachedInfo().Cluster.Leader
		i := slices.IndexFunc(s.Nodes, func(nd *natstest.Node) bool { return nd.Name == name })
		if i < 0 {
			return fmt.Errorf("%s is led by %q", stream, name)
		}
		leads = s.Nodes[i]
		return nil
	})
	return leads
}

// healthy waits until all replicas of a stream are current.
func (s *servers) healthy(t testing.TB, nc *nats.Conn, stream string) {
	js, err := jsapi.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		st, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		for _, r := range st.CachedInfo().Cluster.Replicas {
			if !r.Current || r.Offline {
				return fmt.Errorf("a replica of %s is behind: %+v", stream, r)
			}
		}
		return nil
	})
}

// eventually calls do until it returns nil.
func eventually(t testing.TB, do func(context.Context) error) {
	t.Helper()
	natstest.Eventually(t, time.Minute, do)
}
