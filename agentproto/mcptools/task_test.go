package mcptools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// TestMB17_Tasks calls tools of a server that turns calls into tasks. It covers immediate results, errors, an unknown status, and
// a result that claims to be a task.
func TestMB17_Tasks(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"events", "plain", "stdio"} {
		t.Run(mode, func(t *testing.T) {
			d, _ := newTaskDesk(t, mode, nil)
			for _, tool := range d.manifest().Tools {
				if !tool.Annotations.LongRunning {
					t.Errorf("%s does not say that it takes long", tool.Name)
				}
			}
			for n, c := range []struct{ order, want string }{
				{`"MS":0`, "counted 1 []"},
				{`"MS":300,"Poll":1`, "counted 2 []"},
				{`"Moans":2`, "counted 3 []"},
				{`"Ends":"fails"`, "Error: p refused the call: not today (-32050)"},
				{`"Ends":"cancelled"`, "Error: p cancelled the call"},
				{`"Ends":"odd"`, `Error: p says that the call is "odd", which is not known here`},
				{`"Ends":"roots"`, "Error: p wants something else than an answer of the user, which is not supported"},
			} {
				d.call("t", fmt.Sprint("c", n+1), "work", fmt.Sprintf(`{"N":%d,%s}`, n+1, c.order))
				d.want(c.order, c.want)
				if got := d.noted(fmt.Sprint("count ", n+1)); got != 1 {
					t.Errorf("%s: it was carried out %d times", c.order, got)
				}
				gaveUp := strings.Contains(c.order, "odd") || strings.Contains(c.order, "roots")
				if got := d.noted(fmt.Sprint("cancel ", n+1)); (got == 1) != gaveUp {
					t.Errorf("%s: it was cancelled %d times", c.order, got)
				}
			}
			d.call("t", "forge", "forge", "{}")
			d.want("a result that claims to be a task", "no task")
		})
	}
}

// TestMB17_Input has a task ask the same question twice and then another, and restarts while the second question is open. The
// answer to the first must not count for the second.
func TestMB17_Input(t *testing.T) {
	const yes = `{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}`
	folder := t.TempDir()
	d, p := newTaskDesk(t, "events", func(o *mcptools.Options) { o.State = folder })
	question := func() *agentproto.UserChoice {
		t.Helper()
		m := d.next()
		q, ok := m.(*agentproto.UserChoice)
		if !ok {
			t.Fatalf("%+v is no question", m)
		}
		return q
	}
	answer := func(q *agentproto.UserChoice, selected int) {
		d.post(q.ResponseURL, fmt.Sprintf(`{"id":%q,"selected":%d}`, q.ID, selected))
	}
	d.call("t", "c", "work", fmt.Sprintf(`{"N":1,"Asks":[%s,%s,%s]}`, yes, yes, `{"type":"object","properties":{"password":{"type":"string"}}}`))
	answer(question(), 0)
	second := question()
	if err := d.set.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := p.serve(t, false)
	again := newDesk(t, func(o *mcptools.Options) {
		o.State, o.Servers[0] = folder, mcptools.Server{Name: "p", URL: url}
	})
	again.notes = d.notes
	if err := again.set.Resume(); err != nil {
		t.Fatal(err)
	}
	again.post(second.ResponseURL, fmt.Sprintf(`{"id":%q,"selected":1}`, second.ID))
	again.want("the result", `counted 1 [{"action":"accept","content":{"sure":true}} {"action":"accept","content":{"sure":false}} {"action":"decline"}]`)
	if n := again.noted("count 1"); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}
}

// TestMB17_Cancel cancels a call while its task works, and while the task asks the user. The server is told once.
func TestMB17_Cancel(t *testing.T) {
	d, _ := newTaskDesk(t, "events", nil)
	for n, order := range []string{`"MS":3600000`, `"Asks":[{"type":"object","properties":{"sure":{"type":"boolean"}}}]`} {
		d.call("t", fmt.Sprint("c", n), "work", fmt.Sprintf(`{"N":%d,%s}`, n, order))
		if n == 1 {
			if m := d.next(); m.Type() != agentproto.TypeUserChoice {
				t.Errorf("%+v is no question", m)
			}
		}
		d.until("the task is known", func() bool { return d.noted(fmt.Sprint("get ", n)) > 0 })
		d.post(mcptools.Base("p")+"/cancel_tool_call", fmt.Sprintf(`{"thread_id":"t","tool_call_id":"c%d"}`, n))
		d.until("the task is cancelled", func() bool { return d.noted(fmt.Sprint("cancel ", n)) == 1 })
	}
	d.call("t", "next", "forge", "{}")
	d.want("the next call", "no task")
	for n := range 2 {
		if got := d.noted(fmt.Sprint("cancel ", n)); got != 1 {
			t.Errorf("the task %d was cancelled %d times", n, got)
		}
	}
}

// TestMB17_Forgotten has a server lose a working task.
func TestMB17_Forgotten(t *testing.T) {
	d, p := newTaskDesk(t, "plain", nil)
	d.call("t", "c", "work", `{"N":1,"MS":3600000,"Poll":1}`)
	d.until("the task is known", func() bool { return d.noted("get 1") > 0 })
	p.forget(1)
	d.want("the result", "Error: p does not say what became of the call, which may have been carried out: task not found (-32602)")
	if n := d.noted("count 1"); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}
}

// TestMB17_Killed kills the process at random points during calls that become tasks. If the server was asked for a task, its ID
// had been saved, and the result must be that of the task.
func TestMB17_Killed(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, notes: t.TempDir() + "/counts"}
	p := &taskPeer{note: func(line string) {
		if err := note(d.notes, line); err != nil {
			t.Error(err)
		}
	}}
	results := killed(t, t.TempDir(), p.serve(t, false), "work")
	unknown := 0
	for id, text := range results {
		n := strings.TrimPrefix(id, "c")
		runs, known := d.noted("count "+n), d.noted("get "+n) > 0
		switch {
		case text == "counted "+n+" []" && runs == 1:
		case strings.Contains(text, "It may have been carried out; it was not repeated.") && runs <= 1 && !known:
			unknown++
		default:
			t.Errorf("%s: %q; it was carried out %d times, and its task was known: %v", id, text, runs, known)
		}
	}
	t.Logf("%d calls, %d results that nobody knows", len(results), unknown)
}
