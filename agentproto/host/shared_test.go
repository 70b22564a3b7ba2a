package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestProcessesShareSessions divides the sessions of one history among three runtimes. All results are posted to one
// of them, calls are made at one and awaited at the others, and one runtime leaves. It catches a call known only to
// the process that made it or received its result. It catches a call that is made twice or lost when its session
// changes owner, and a runtime that runs nothing.
func TestProcessesShareSessions(t *testing.T) {
	t.Parallel()
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server did not start")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	public := "http://" + listener.Addr().String()
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	echo, late := echoServer(t, "echo"), lateServer(t)
	var all []*Runtime
	for i := range 3 {
		opts := Options{
			Toolsets: []string{echo.URL, late.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer, PublicURL: public,
			State: &durable.Options{
				Log:  natslog.Servers(natslog.Options{URLs: []string{s.ClientURL()}, Replicas: 1, AssumeDurable: true}),
				Name: "sessions", Member: fmt.Sprint("runtime-", i), Partitions: 8, Logger: slog.New(slog.DiscardHandler),
			},
		}
		if i == 0 {
			opts.Listener = listener
		} else {
			opts.External = true // all callbacks arrive at the first
		}
		rt, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rt)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	await := func(rt *Runtime, key agentproto.CallKey, want string) {
		t.Helper()
		if r, err := rt.Await(ctx, key); err != nil || r.Result.String() != want {
			t.Fatalf("%v: %+v, %v, want %q", key, r, err, want)
		}
	}
	var pending []agentproto.CallKey
	for i := range 24 {
		at, elsewhere := all[i%3], all[(i+1)%3]
		session := fmt.Sprint("session ", i)
		key, err := at.Call(ctx, Request{GroupID: session, Operation: "echo"})
		if err != nil {
			t.Fatal(err)
		}
		await(elsewhere, key, "echo "+key.ID)
		if known, err := elsewhere.Known(ctx, key); !known || err != nil {
			t.Fatalf("%v is known elsewhere: %v, %v", key, known, err)
		}
		child := agentproto.InSession(session, "child")
		if key, err = at.Call(ctx, Request{GroupID: child, ThreadAncestors: []string{session}, Operation: "late"}); err != nil {
			t.Fatal(err)
		}
		if _, err := elsewhere.Call(ctx, Request{GroupID: child, ID: key.ID, Operation: "late"}); err == nil {
			t.Fatalf("%v was made twice", key)
		}
		pending = append(pending, key)
	}
	calls := map[agentproto.CallKey]*agentproto.Invocation{}
	for len(calls) < len(pending) {
		select {
		case inv := <-late.invocations:
			calls[inv.Key()] = inv
		case <-ctx.Done():
			t.Fatalf("%d of %d calls were posted", len(calls), len(pending))
		}
	}
	var run []uint64
	for _, rt := range all {
		run = append(run, rt.Stats().Attempts)
	}
	t.Logf("invocations posted by each: %v", run)
	if run[0] == 0 || run[1] == 0 || run[2] == 0 {
		t.Error("one of them runs nothing")
	}
	stopNow(t, all[2])
	for i, key := range pending {
		for range 2 { // the second one is a duplicate
			if status := late.post(t, calls[key].CallbackURL, result(key, "at last")); status != 200 {
				t.Errorf("%v: status %d", key, status)
			}
		}
		await(all[i%2], key, "at last")
	}
	stopNow(t, all[1])
	for _, key := range pending {
		await(all[0], key, "at last")
	}
	stopNow(t, all[0])
}
