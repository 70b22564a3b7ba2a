package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
)

// TestEvents checks that events of a call without a conversation are stored with their numbers. A waiting caller receives
// the next event, and the end.
func TestEvents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		ctx := t.Context()
		if _, err := w.rt.Events(ctx, key, -1); !errors.Is(err, ErrUnknownCall) {
			t.Errorf("before it has a subscription: %v", err)
		}
		w.post(url, subscribe(key))
		synctest.Wait()
		if e, err := w.rt.Events(ctx, key, -1); err != nil || e.Last != 0 || e.Ended || e.Operation != "echo" {
			t.Errorf("at first: %+v, %v", e, err)
		}
		if open, err := w.rt.Subscriptions(ctx, key.GroupID); err != nil || len(open) != 1 || open[0].Key != key {
			t.Errorf("open are %+v, %v", open, err)
		}
		got := make(chan agentproto.Events, 1)
		next := func(after int) {
			go func() {
				e, err := w.rt.Events(ctx, key, after)
				if err != nil {
					t.Error(err)
				}
				got <- e
			}()
			synctest.Wait()
			if len(got) != 0 {
				t.Fatalf("behind %d, before anything happened: %+v", after, <-got)
			}
		}
		next(0)
		w.post(url, event(key, "one", false))
		if e := <-got; e.Last != 1 || !slices.Equal(e.Texts, []string{"one"}) {
			t.Errorf("the first: %+v", e)
		}
		next(1)
		if err := w.rt.EndSubscription(ctx, key); err != nil {
			t.Error(err)
		}
		if e := <-got; e.Last != 1 || !e.Ended || len(e.Texts) != 1 {
			t.Errorf("ended: %+v", e)
		}
		synctest.Wait()
		if open, err := w.rt.Subscriptions(ctx, key.GroupID); err != nil || len(open) != 0 {
			t.Errorf("open are %+v, %v", open, err)
		}
		if n := len(tool.noticed()); n != 1 {
			t.Errorf("the tool was told %d times", n)
		}
		if _, err := w.rt.Subscriptions(ctx, ""); !errors.Is(err, ErrBadID) {
			t.Errorf("of no thread: %v", err)
		}
		brief, cancel := context.WithCancel(ctx)
		plain := w.call("g", "2")
		w.post(tool.callback(), subscribe(plain))
		synctest.Wait()
		failed := make(chan error, 1)
		go func() {
			_, err := w.rt.Events(brief, plain, 0)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a context that ends: %v", err)
		}
	})
}
