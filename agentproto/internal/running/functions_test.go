package running

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

func TestFunctions(t *testing.T) {
	var l Functions
	one, two := tools.Job{Kind: tools.Run, Call: tools.CallID{Runtime: "r", ID: "1"}}, tools.Job{Kind: tools.Produce, Call: tools.CallID{Runtime: "s", ID: "2"}}
	f, g := NewFunction(at, one, nil), NewFunction(at, two, nil)
	l.Enter(f)
	l.Enter(g)
	if all, of := l.Running("r"); all != 2 || of != 1 {
		t.Errorf("%d functions, %d of r", all, of)
	}
	producers := 0
	l.Each(func(f *Function) {
		if f.Producer {
			producers++
		}
	})
	if producers != 1 {
		t.Errorf("%d producers", producers)
	}
	changed, n, suspended := l.Wait()
	if n != 2 || len(suspended) != 0 {
		t.Errorf("%d functions, %v suspended", n, suspended)
	}
	l.Suspended(f)
	l.Leave(f)
	<-changed
	if _, n, suspended = l.Wait(); n != 1 || len(suspended) != 1 || suspended[0] != (tools.Name{Runtime: at.Runtime, ID: "1"}) {
		t.Errorf("%d functions, %v suspended", n, suspended)
	}
	if _, of := l.Running("r"); of != 0 {
		t.Errorf("%d of r", of)
	}
}

// TestSpend posts messages until too many are undelivered.
func TestSpend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Functions
		j := tools.Job{Call: tools.CallID{Runtime: "r", ID: "1"}, Queue: maxQueue - 1}
		f := NewFunction(at, j, nil)
		l.Enter(f)
		defer l.Leave(f)
		sent, err := f.Spend(t.Context(), 1)
		if err != nil || sent.Messages != 1 {
			t.Fatalf("Spend = %+v, %v", sent, err)
		}
		full := errors.New("still full")
		ctx, stop := context.WithCancelCause(t.Context())
		end := make(chan error)
		go func() {
			_, err := f.Spend(ctx, 1)
			end <- err
		}()
		synctest.Wait()
		stop(full)
		if err := <-end; !errors.Is(err, full) {
			t.Errorf("Spend = %v", err)
		}
		go func() {
			_, err := f.Spend(t.Context(), 1)
			end <- err
		}()
		synctest.Wait()
		j.Queue, j.Credit = maxQueue-1, sent // the message was queued, and one was delivered
		l.Attempted(j)
		if err := <-end; err != nil {
			t.Errorf("Spend = %v", err)
		}
	})
}

func TestAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Functions
		id := tools.CallID{Runtime: "r", ID: "1"}
		l.Acknowledged(t.Context(), id) // nobody has asked for it
		left := l.Acknowledging(id)
		l.Acknowledging(id)() // a repeated request does not let it begin
		begun := false
		go func() {
			l.Acknowledged(t.Context(), id)
			begun = true
		}()
		synctest.Wait()
		if begun {
			t.Error("a call begins before its acknowledgement has left")
		}
		left()
		synctest.Wait()
		if !begun {
			t.Error("a call does not begin when its acknowledgement has left")
		}
	})
}
