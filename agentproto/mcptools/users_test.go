package mcptools_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// as returns an invocation by a user.
func as(user, thread, id, tool, args string) string {
	body, _ := json.Marshal(map[string]any{
		"operation": "p_" + tool, "arguments": json.RawMessage(args), "id": id, "group_id": thread, "user_id": user, "callback_url": "http://127.0.0.1:7340/cb/" + thread + "/" + id,
	})
	return string(bytes.TrimSpace(body))
}

// callAs makes a call by a user, or by none if user is empty.
func (d *desk) callAs(user, thread, id, tool, args string) {
	d.t.Helper()
	if user == "" {
		d.call(thread, id, tool, args)
		return
	}
	d.post(mcptools.Base("p")+"/invoke", as(user, thread, id, tool, args))
}

// lives returns how many programs of the peer have started, and the most that ran at once.
func (d *desk) lives() (begun, most int) {
	data, _ := os.ReadFile(d.notes)
	for line := range strings.Lines(string(data)) {
		var n int
		if _, err := fmt.Sscanf(line, "living %d", &n); err == nil {
			begun++
			most = max(most, n)
		}
	}
	return begun, most
}

// TestMT36_IdleStops stops and starts a program many times with calls that arrive at any moment and must not be sent twice. The
// test fails if a call fails or is lost because the program was about to end, if two programs run at once, or if a stop counts as
// a crash.
func TestMT36_IdleStops(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := newDesk(t, func(o *mcptools.Options) {
		o.State, o.Bounds.Ends = folder, 1
		o.Servers[0].Idle, o.Servers[0].Env["LIVES"] = time.Millisecond, "1"
	})
	idle := func() bool { return d.set.Status()[0].State == mcptools.Idle }
	d.until("it is idle", idle)
	if n := len(d.manifest().Tools); n < 10 {
		t.Errorf("%d tools", n)
	}
	const calls = 25
	for n := range calls {
		if n%5 == 0 {
			d.until("it is idle", idle)
		}
		d.call("t", fmt.Sprint("c", n), "count", fmt.Sprintf(`{"N":%d,"MS":%d}`, n, 20*(n%3)))
		d.want("a call", fmt.Sprint("counted ", n))
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
	}
	for n := range calls {
		if runs := d.noted(fmt.Sprint("count ", n)); runs != 1 {
			t.Errorf("call %d was carried out %d times", n, runs)
		}
	}
	begun, most := d.lives()
	if begun < calls/5 || most > 1 || len(d.set.Problems()) > 0 {
		t.Errorf("%d programs have begun, %d were there at once, problems %v", begun, most, d.set.Problems())
	}
	t.Logf("%d calls, %d programs", calls, begun)
}

// TestMT37_UsersAreNotCrossed has more users than programs, who remember and recall values in random order from several threads.
// A user never sees another user's value, in memory or on disk, whatever the names of the users.
func TestMT37_UsersAreNotCrossed(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Rel(here, t.TempDir()) // a relative path, as operators write it
	if err != nil {
		t.Fatal(err)
	}
	const most = 2
	d := newDesk(t, func(o *mcptools.Options) {
		o.State, o.Bounds.Ends = folder, 1
		o.Servers[0].PerUser, o.Servers[0].MaxUsers, o.Servers[0].Env["LIVES"] = true, most, "1"
	})
	users := []string{"ada", "bob", "../ada", "user:ada", ""} // the last one is identified by its thread
	kept := map[string]string{}
	names := map[string]bool{}
	for _, tool := range d.manifest().Tools {
		names[tool.Name] = true
	}
	for n := range 20 {
		user := users[rand.IntN(len(users))]
		thread := fmt.Sprint("t", rand.IntN(2))
		who := user
		if user == "" {
			who = "thread " + thread
		}
		value := fmt.Sprint(who, " ", n)
		d.callAs(user, thread, fmt.Sprint("r", n), "recall", "{}")
		got := strings.Split(d.result().String(), "|")
		if len(got) != 3 || got[1] != kept[who] || got[2] != kept[who] || got[0] != "" && got[0] != kept[who] {
			t.Fatalf("%s has %q, and has remembered %q", who, got, kept[who])
		}
		args, _ := json.Marshal(map[string]string{"Value": value})
		d.callAs(user, thread, fmt.Sprint("s", n), "remember", string(args))
		d.want("remember", "remembered")
		kept[who] = value
	}
	if begun, living := d.lives(); living > most+1 || begun <= most+1 { // one more lists the tools
		t.Errorf("%d programs have begun, %d were there at once", begun, living)
	}
	if st := d.set.Status()[0]; st.Users == 0 || st.Users > most || !names["p_recall"] {
		t.Errorf("the status is %v, the tools are %v", st, names)
	}
	d.callAs("ada", "t", "grow", "grow", "{}") // a tool that one user's program adds is not offered to others
	d.want("grow", "grown")
	d.callAs("ada", "t", "where", "recall", "{}")
	d.result()
	for _, tool := range d.manifest().Tools {
		if tool.Name == "p_late" {
			t.Error("the tool of one user's program is offered")
		}
	}
	if p := d.set.Problems(); len(p) > 0 {
		t.Error(p)
	}
}

// TestMT38_TooManyUsers has one user too many, first while no program is idle, then while one is.
func TestMT38_TooManyUsers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := newDesk(t, func(o *mcptools.Options) {
		o.State = folder
		o.Servers[0].PerUser, o.Servers[0].MaxUsers = true, 1
	})
	d.callAs("ada", "t", "w", "wait", "{}")
	d.until("the call is there", func() bool { return d.noted("waits") == 1 })
	d.callAs("bob", "u", "c", "same", "{}")
	d.want("one too many", "Error: p is used by too many users at once, 1; the call was not sent")
	d.callAs("ada", "v", "c", "same", "{}")
	d.want("the same user", `{ "a": 1 }`)
	d.post(mcptools.Base("p")+"/cancel_tool_call", `{"thread_id":"t","tool_call_id":"w"}`)
	d.until("the call is cancelled", func() bool { return d.noted("cancelled") == 1 })
	d.until("there is room", func() bool {
		id := fmt.Sprint("c", rand.Uint64())
		d.callAs("bob", "u", id, "same", "{}")
		return d.result().String() == `{ "a": 1 }`
	})
	if st := d.set.Status()[0]; st.Users != 1 {
		t.Errorf("the status is %v", st)
	}
}

// TestMT36_UsedIsNotStopped keeps a question open, and then a subscription, for longer than a program may be idle. The program of
// another user is stopped meanwhile, and the one in use is not, in every mode.
func TestMT36_UsedIsNotStopped(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "newest"} {
		folder := t.TempDir()
		d := newDesk(t, func(o *mcptools.Options) {
			o.State = folder
			o.Servers[0].PerUser, o.Servers[0].Idle, o.Servers[0].Env["MODE"] = true, 30*time.Millisecond, mode
		})
		n := 0
		// another makes a call of another user, and waits until that user's program stops.
		another := func(running int) {
			t.Helper()
			n++
			d.callAs("bob", "u", fmt.Sprint("c", n), "same", "{}")
			d.want("another user", `{ "a": 1 }`)
			d.until("the other program is stopped", func() bool { return d.set.Status()[0].Users <= running })
			if users := d.set.Status()[0].Users; users != running {
				t.Errorf("%s: the programs of %d users run", mode, users)
			}
		}
		d.callAs("ada", "t", "e", "ask", `{"form":{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}}`)
		q, ok := d.next().(*agentproto.UserChoice)
		if !ok {
			t.Fatalf("%s: %+v is no question", mode, q)
		}
		another(1)
		d.post(q.ResponseURL, fmt.Sprintf(`{"id":%q,"selected":0}`, q.ID))
		d.want("the question", `accept {"sure":true}`)
		if err := os.WriteFile(d.notes+".text", []byte("one"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.callAs("ada", "t", "watch", "watch_resource", `{"uri":"file:///note"}`)
		if r := d.result(); r.String() != "file:///note\none" || !r.Subscription {
			t.Fatalf("%s: the subscription begins with %+v", mode, r)
		}
		d.until("it is subscribed to", func() bool { return d.noted("subscribed") > 0 })
		another(1)
		d.post(mcptools.Base("p")+"/cancel_tool_call", `{"thread_id":"t","tool_call_id":"watch"}`)
		d.until("nothing runs", func() bool { return d.set.Status()[0].Users == 0 })
	}
}

// TestMT39_UsersKilled kills a process whose programs, of two users and one for lists, do not end by themselves. They are gone
// once the next process has started, even if the users no longer have programs.
func TestMT39_UsersKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not tell processes of one number apart")
	}
	folder := t.TempDir()
	d := &desk{t: t, notes: filepath.Join(folder, "counts")}
	t.Setenv(perUserEnv, "stubborn")
	m := newMortal(t, folder, "")
	for _, user := range []string{"ada", "bob"} {
		m.invoke(as(user, "t", user, "count", `{"N":1}`))
	}
	d.until("both have a result", func() bool {
		data, _ := os.ReadFile(filepath.Join(folder, "results"))
		return strings.Count(string(data), agentproto.TypeToolResult) == 2
	})
	m.kill()
	data, err := os.ReadFile(d.notes)
	if err != nil {
		t.Fatal(err)
	}
	pids := map[int]bool{}
	for line := range strings.Lines(string(data)) {
		var pid int
		if _, err := fmt.Sscanf(line, "pid %d", &pid); err == nil {
			pids[pid] = true
		}
	}
	if len(pids) < 6 {
		t.Errorf("only %d programs were there", len(pids))
	}
	t.Setenv(perUserEnv, "")
	next := newMortal(t, folder, "")
	for pid := range pids {
		d.until(fmt.Sprint(pid, " has ended"), func() bool { return !alive(pid) })
	}
	next.end()
}
