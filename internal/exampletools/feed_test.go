package exampletools_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/internal/exampletools"
)

// event returns the text of the next message, which must be an event.
func (c callbacks) event(t *testing.T) string {
	t.Helper()
	m := <-c
	e, ok := m.(*agentproto.SubscriptionEvent)
	if !ok {
		t.Fatalf("got %+v, want an event", m)
	}
	return fmt.Sprintf("%s %s %t", e.ToolCallID, e.Text, e.Final)
}

func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, got := options()
		opts.State = t.TempDir()
		server := open(exampletools.Feed(opts))
		expect := func(text, want string) {
			t.Helper()
			if text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		}
		call(t, server, "tick", "t1", `{"ms":0}`)
		expect(got.result(t), "Error: there must be some time between two events")
		start := time.Now()
		call(t, server, "tick", "t2", `{"ms":500,"count":3}`)
		expect(got.result(t), "counting, every 500 ms")
		expect(got.event(t), "t2 tick 1 false")
		call(t, server, "publish", "p0", `{"topic":"rain","text":"too early"}`)
		expect(got.result(t), `published about "rain"`)
		call(t, server, "watch", "w1", `{"topic":"rain"}`)
		expect(got.result(t), `watching "rain"`)
		synctest.Wait()

		if err := server.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		server = open(exampletools.Feed(opts))
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		expect(got.event(t), "t2 tick 2 false")
		expect(got.event(t), "t2 tick 3 true")
		if d := time.Since(start); d != 1500*time.Millisecond {
			t.Errorf("three ticks took %v", d)
		}
		for i, text := range []string{"drops", "pours"} {
			call(t, server, "publish", fmt.Sprint("p", i+1), `{"topic":"rain","text":"`+text+`"}`)
			for range 2 { // in any order
				switch m := (<-got).(type) {
				case *agentproto.SubscriptionEvent:
					expect(m.ToolCallID+" "+m.Text, "w1 "+text)
				case *agentproto.ToolResult:
					expect(m.String(), `published about "rain"`)
				}
			}
		}
		call(t, server, "publish", "p3", `{"topic":"sun","text":"shines"}`)
		got.result(t)
		post(t, server, "/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"w1"}`)

		call(t, server, "progress", "v1", `{"steps":2,"ms":100}`)
		for _, want := range []string{`{"done":0,"steps":2}`, `{"done":1,"steps":2}`, `{}`} {
			v, ok := (<-got).(*agentproto.ViewUpdate)
			if !ok || string(v.Content) != want {
				t.Errorf("view %+v, want %s", v, want)
			}
		}
		expect(got.result(t), "2 steps done")

		for i, c := range []struct {
			selected int
			want     string
		}{{2, "not deleted"}, {0, "it deleted"}, {1, "it deleted"}} {
			id := fmt.Sprint("d", i)
			call(t, server, "delete", id, `{"name":"it"}`)
			q := (<-got).(*agentproto.UserChoice)
			post(t, server, q.ResponseURL[len(opts.PublicURL):], fmt.Sprintf(`{"id":%q,"selected":%d}`, id, c.selected))
			expect(got.result(t), c.want)
		}
		call(t, server, "delete", "d3", `{"name":"more"}`)
		expect(got.result(t), "more deleted")
		synctest.Wait()
		if err := server.Close(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%v, %d more messages", err, len(got))
		}
	})
}
