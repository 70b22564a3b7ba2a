package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type upgradeCluster struct{ dataflow.Cluster }

type upgradePorts struct {
	in  *dataflow.KeyedInputPort[string, int]
	out *dataflow.EntryOutputPort[string, int]
}

// firsts returns a flow that outputs the first value of each key, from an operator with
// the given name.
func firsts(name string) func(*dataflow.Flow) upgradePorts {
	return func(f *dataflow.Flow) upgradePorts {
		in, xs := keyedstream.Input[string, int](dataflow.At[upgradeCluster](f), "in")
		return upgradePorts{in, keyedsingleton.Output(dataflow.Named(name, keyedstream.First(xs)), "out")}
	}
}

// TestDurableUpgrade checks the output of 'upgrade' for a new program that lacks a line,
// and after an upgrade.
func TestDurableUpgrade(t *testing.T) {
	t.Parallel()
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server did not start")
	}
	options := durable.Options{
		Log:  natslog.Servers(natslog.Options{URLs: []string{s.ClientURL()}, Replicas: 1, AssumeDurable: true}),
		Name: "firsts", Partitions: 4, Logger: slog.New(slog.DiscardHandler),
	}
	run := func(name, version, member string) *durable.App[upgradePorts] {
		opts := options
		opts.Version, opts.Member = version, member
		app, err := durable.Start(t.Context(), firsts(name), opts)
		if err != nil {
			t.Fatal(err)
		}
		return app
	}
	end := func(app *durable.App[upgradePorts]) {
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	args := []string{"upgrade", "--nats", s.ClientURL(), "--name", "firsts", "--replicas", "1", "--assume-durable"}
	shows := func(code int, args []string, want ...string) {
		t.Helper()
		said, got := durableOf(t, args...)
		for _, text := range want {
			if got != code || !strings.Contains(said, text) {
				t.Errorf("exit status %d, want %d and %q:\n%s", got, code, text, said)
			}
		}
	}
	old := run("first", "v1", "a")
	for _, k := range []string{"x", "y", "z"} {
		if err := old.Ports.in.Send(t.Context(), k, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Ports.out.Await(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, is func(*durable.Rollout) bool) {
		t.Helper()
		for try := time.NewTicker(20 * time.Millisecond); ; {
			r, err := durable.Programs(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			if is(r) {
				return
			}
			select {
			case <-try.C:
			case <-t.Context().Done():
				t.Fatal(what, "did not come")
			}
		}
	}
	until("the first steps", func(r *durable.Rollout) bool {
		return !slices.ContainsFunc(r.Partitions, func(p durable.PartitionProgram) bool { return p.Step == 0 })
	})
	bad := run("other", "v2", "c")
	until("a refusal", func(r *durable.Rollout) bool { return len(r.Members) == 2 && len(r.Members[1].Refuses) > 0 })
	shows(0, args, "v1", "c refuses partitions [", `durable.Was("other", "first")`)
	end(bad)
	shows(0, append(args, "--watch"), "all partitions are run by version v1")
	end(old)
	shows(0, args, "no process shares the flow now", "v1")
	shows(2, []string{"upgrade"}, "no --state folder and no --nats server")
	shows(1, []string{"upgrade", t.TempDir()}, "there is no history")
}
