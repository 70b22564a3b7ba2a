package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
)

// TestDescribe follows a call from its start to its resolution. Changed returns at each change of its state.
func TestDescribe(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		ctx := t.Context()
		if _, err := w.rt.Describe(ctx, agentproto.CallKey{GroupID: "g", ID: "1"}); !errors.Is(err, ErrUnknownCall) {
			t.Errorf("a call that never was: %v", err)
		}
		if _, err := w.rt.Describe(ctx, agentproto.CallKey{GroupID: "g"}); !errors.Is(err, ErrUnknownCall) {
			t.Errorf("a call that cannot be: %v", err)
		}
		key := w.call("g", "1")
		d, err := w.rt.Describe(ctx, key)
		if err != nil || d.State != agentproto.Pending || d.Operation != "echo" || d.Toolset != tool.base || d.Created.IsZero() || d.Prompt != nil {
			t.Fatalf("made: %+v, %v", d, err)
		}
		last := d.Version
		// changed runs do and returns the next description from Changed.
		changed := func(do func()) Description {
			t.Helper()
			got := make(chan Description, 1)
			go func() {
				d, err := w.rt.Changed(ctx, key, last)
				if err != nil {
					t.Error(err)
				}
				got <- d
			}()
			synctest.Wait()
			select {
			case d := <-got:
				t.Fatalf("changed before anything happened: %+v", d)
			default:
			}
			do()
			d := <-got
			if d.Version <= last {
				t.Errorf("version %d after %d", d.Version, last)
			}
			last = d.Version
			return d
		}
		for n := range 2 {
			ask := fmt.Sprintf(`{"type":"user_choice","group_id":"g","id":"1","prompt":"sure?","choices":["a","b"],"default":1,"response_url":"http://tool.test/answer?n=%d"}`, n)
			d = changed(func() { w.post(tool.callback(), ask) })
			if d.State != agentproto.ChoicePending || d.Prompt == nil || d.Prompt.Number != n+1 || d.Prompt.Choice.Prompt != "sure?" {
				t.Fatalf("asked: %+v", d)
			}
			if err := w.rt.AnswerPrompt(ctx, key, d.Prompt.Number, 2); !errors.Is(err, ErrBadChoice) {
				t.Errorf("an answer out of range: %v", err)
			}
			if err := w.rt.AnswerPrompt(ctx, key, d.Prompt.Number+1, 0); err != nil {
				t.Errorf("an answer to another prompt: %v", err)
			}
			d = changed(func() {
				if err := w.rt.AnswerPrompt(ctx, key, n+1, Dismiss*n); err != nil { // the first choice, then the default
					t.Error(err)
				}
			})
			if d.State != agentproto.Pending || d.Prompt != nil {
				t.Errorf("answered: %+v", d)
			}
		}
		d = changed(func() { w.post(tool.callback(), result(key, "ok")) })
		if d.State != agentproto.Completed || d.Resolution == nil || d.Resolution.Result.String() != "ok" || d.Changed.IsZero() {
			t.Errorf("resolved: %+v", d)
		}
		if got := tool.answersGot(); len(got) != 2 {
			t.Errorf("the tool got %q", got)
		}
	})
}

// TestChangedEnds checks that a waiting Changed returns when the runtime stops, when its context ends, and when
// the call is interrupted. It leaves no waiter behind.
func TestChangedEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		key := w.call("g", "1")
		d, err := w.rt.Describe(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.rt.Changed(ctx, key, d.Version); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		stopped := make(chan error, 1)
		go func() {
			_, err := w.rt.Changed(context.Background(), key, d.Version)
			stopped <- err
		}()
		synctest.Wait()
		go w.rt.Stop(context.Background())
		if err := <-stopped; !errors.Is(err, ErrStopped) {
			t.Errorf("a runtime that stops: %v", err)
		}
	})
}

// TestProgressed checks that progress reported by a tool belongs to its call and wakes those who wait for it.
// Nothing else wakes them.
func TestProgressed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		ctx := t.Context()
		key := w.call("g", "1")
		first := tool.callback()
		other := w.call("g", "2") // of the same thread, so both share its views
		second := tool.callback()
		d, err := w.rt.Describe(ctx, key)
		if err != nil || d.Progress != nil {
			t.Fatalf("at first: %+v, %v", d, err)
		}
		said := uint64(0)
		progressed := func(body string) Description {
			t.Helper()
			got := make(chan Description, 1)
			go func() {
				d, err := w.rt.Progressed(ctx, key, d.Version, said)
				if err != nil {
					t.Error(err)
				}
				got <- d
			}()
			w.post(second, view("g", agentproto.ProgressView, `{"progress":7}`))
			w.post(first, view("g", "plan", `{"progress":8}`))
			w.post(first, view("g", agentproto.ProgressView, `{"progress":"no"}`))
			w.post(first, view("g", agentproto.ProgressView, `{}`))
			synctest.Wait()
			select {
			case d := <-got:
				t.Fatalf("before anything was said: %+v", d.Progress)
			default:
			}
			w.post(first, body)
			return <-got
		}
		for n := range 3 {
			now := progressed(view("g", agentproto.ProgressView, fmt.Sprintf(`{"progress":%d,"total":3,"message":"m"}`, n)))
			want := agentproto.Progress{Progress: float64(n), Total: 3, Message: "m"}
			if now.Version != d.Version || now.Progress == nil || now.Progress.Progress != want || now.Progress.Number <= said {
				t.Errorf("said: %+v", now.Progress)
			}
			said = now.Progress.Number
		}
		if now, err := w.rt.Describe(ctx, other); err != nil || now.Progress == nil || now.Progress.Progress.Progress != 7 {
			t.Errorf("the other call: %+v, %v", now.Progress, err)
		}
		now := progressed(result(key, "ok"))
		if now.Resolution == nil || now.Progress != nil {
			t.Errorf("resolved: %+v", now)
		}
		w.post(first, view("g", agentproto.ProgressView, `{"progress":9}`))
		if now, err := w.rt.Describe(ctx, key); err != nil || now.Progress != nil {
			t.Errorf("after the result: %+v, %v", now.Progress, err)
		}
	})
}
