package running

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

var at = tools.Place{Runtime: "r", Session: "root"}

// options returns options whose jobs run do.
func options(do func(ctx context.Context, j tools.Job) tools.Outcome) tools.Options {
	return tools.Options{
		Rules: tools.Rules{Horizon: time.Hour, Remember: time.Hour, Pauses: []time.Duration{time.Second}, Most: time.Hour},
		Asked: time.Hour, Jobs: 8,
		Do: func(ctx context.Context, _ tools.Place, j tools.Job) tools.Outcome { return do(ctx, j) },
		OAuth: func(_ context.Context, _ string, j authorize.Job) authorize.Outcome {
			return authorize.Outcome{Class: authorize.None}
		},
	}
}

func invoke(t *testing.T, f *Flow) {
	t.Helper()
	inv := &agentproto.Invocation{GroupID: "below", ID: "c1", ThreadAncestors: []string{"root"}, Operation: "op", CallbackURL: "https://runtime.example"}
	told, err := f.Ask(at, tools.In{Invoke: &tools.Invoke{Call: tools.CallID{Runtime: "r", Group: "below", ID: "c1"}, Inv: inv, Print: tools.PrintOf(inv), Epoch: "e", By: "p"}})
	if err != nil || told.Refused != "" {
		t.Fatalf("Ask = %+v, %v", told, err)
	}
}

func stop(t *testing.T, f *Flow) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	if err := f.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// TestFlow invokes a call in a flow. Another process repeats the unfinished job, but not before
// it is ready.
func TestFlow(t *testing.T) {
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	ctx, end := context.WithCancel(t.Context())
	f, ran := New(ctx), make(chan string, 2)
	if err := f.Start(options(func(ctx context.Context, j tools.Job) tools.Outcome {
		ran <- j.Call.ID
		<-ctx.Done()
		return tools.Outcome{Suspended: true}
	}), folder, log, func() {}); err != nil {
		t.Fatal(err)
	}
	invoke(t, f)
	if id := <-ran; id != "c1" {
		t.Errorf("the job is of %q", id)
	}
	if got := f.PlaceOf("r", "below"); got != at {
		t.Errorf("the thread is of %v", got)
	}
	if got, want := f.PlaceOf("r", "other"), (tools.Place{Runtime: "r", Session: "other"}); got != want {
		t.Errorf("a thread that is not known is of %v", got)
	}
	if l := f.Load(); l.Calls != 1 {
		t.Errorf("%d calls", l.Calls)
	}
	told, err := f.Authorize(ctx, "r", authorize.In{Ask: &authorize.Ask{Key: authorize.Key{User: "user:ada", Provider: "idp"}}})
	if err != nil || told.Class != authorize.None {
		t.Errorf("Authorize = %v, %v", told, err)
	}
	end()
	if _, err := f.Ask(at, tools.In{Cancel: &tools.Cancel{Group: "below", ID: "c1"}}); !errors.Is(err, ErrFlow) {
		t.Errorf("Ask = %v after the end", err)
	}
	if _, err := f.Authorize(ctx, "r", authorize.In{Ended: "c1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Authorize = %v after the end", err)
	}
	stop(t, f)

	f = New(t.Context())
	var ready atomic.Bool
	if err := f.Start(options(func(_ context.Context, j tools.Job) tools.Outcome {
		if !ready.Load() || f.Ports == nil {
			t.Error("a job is done before the process is ready")
		}
		ran <- j.Call.ID
		return tools.Outcome{}
	}), folder, log, func() { ready.Store(true) }); err != nil {
		t.Fatal(err)
	}
	if id := <-ran; id != "c1" {
		t.Errorf("the job is of %q", id)
	}
	stop(t, f)
}

func TestFlowInMemory(t *testing.T) {
	ctx, end := context.WithCancel(t.Context()) // its end ends a flow in memory
	defer end()
	f := New(ctx)
	if err := f.Start(options(func(context.Context, tools.Job) tools.Outcome { return tools.Outcome{} }), "", slog.New(slog.DiscardHandler), func() {}); err != nil {
		t.Fatal(err)
	}
	invoke(t, f)
	if told, err := f.AskTransfer("transfer", tools.TransferIn{Place: at}); err != nil || told.Move.Transfer != "" {
		t.Errorf("AskTransfer = %+v, %v", told, err)
	}
}

// TestGiveUp gives up a flow before it is started, and another one after that.
func TestGiveUp(t *testing.T) {
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	none := options(func(context.Context, tools.Job) tools.Outcome { return tools.Outcome{} })
	f := New(t.Context())
	f.GiveUp()
	if err := f.Start(none, folder, log, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v", err)
	}
	f = New(t.Context()) // nothing has the folder open
	if err := f.Start(none, folder, log, func() {}); err != nil {
		t.Fatal(err)
	}
	f.GiveUp()
	invoke(t, f)
	stop(t, f)
}
