package durable

import (
	"context"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/singleton"
)

// natsServer starts a server that several apps of a test share.
func natsServer(t *testing.T) (url string) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server did not start")
	}
	return s.ClientURL()
}

// TestWatchElsewhere checks that other processes see a value that one process computes,
// and that the next owner continues it.
func TestWatchElsewhere(t *testing.T) {
	type ports struct {
		in  *dataflow.InputPort[int]
		sum *dataflow.SingletonOutputPort[int]
	}
	build := func(f *dataflow.Flow) ports {
		in, xs := dataflow.Input[int](dataflow.At[server](f), "in")
		return ports{in, singleton.Output(dataflow.Fold(xs, func() int { return 0 }, func(acc *int, x int) { *acc += x }), "sum")}
	}
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "shared"}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watch := func(app *App[ports], want int) {
		t.Helper()
		last := -1
		for v := range app.Ports.sum.Watch(ctx) {
			if last = v; v == want {
				return
			}
		}
		t.Fatalf("saw %d last, want %d: %v", last, want, app.Err())
	}
	apps := []*App[ports]{start(t, nil, build, opts), start(t, nil, build, opts)}
	for i, app := range apps {
		if err := app.Ports.in.Send(ctx, 10*(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, app := range apps {
		watch(app, 30)
	}
	owner := 0
	if apps[1].core.gateway.partitions[0].isOwned() {
		owner = 1
	}
	stop(t, apps[owner])
	left := apps[1-owner]
	if err := left.Ports.in.Send(ctx, 5); err != nil {
		t.Fatal(err)
	}
	watch(left, 35)
	stop(t, left)
}
