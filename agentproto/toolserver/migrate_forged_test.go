package toolserver_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto/toolserver"
)

const purpose = "toolserver migration"

// push posts something to the destination's side of a transfer.
func (m *move) push(body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/migrate/import", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/octet-stream")
	m.dst.server.ServeHTTP(w, r)
	return w
}

// bodies returns the transfers that were on the road.
func (r *road) bodies() (bodies []string) {
	for _, s := range r.sent {
		if parts := strings.SplitN(s, " ", 3); parts[0] == "POST" {
			bodies = append(bodies, parts[2])
		}
	}
	return bodies
}

// TestG12_Strangers (N85) has no key, another one, or one for another purpose or instance.
func TestG12_Strangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		payload := toolserver.Payload(`{"version":2,"place":{"Runtime":"","Session":"thread-1"},"calls":null,"done":null,"grants":null}`, []byte("x"))
		endpoint := destination + "/invoke"
		forged := func(key, purpose, toolset, endpoint string) string {
			return string(toolserver.Transfer(key, purpose, "stage", "t1", toolset, endpoint, "thread-1", payload))
		}
		good := forged(migrationKey, purpose, "test", endpoint)
		for name, body := range map[string]string{
			"nothing":          "",
			"text":             `{"session_id":"thread-1"}`,
			"huge header":      "\xff\xff\xff\xff" + strings.Repeat("x", 100),
			"cut header":       good[:20],
			"another key":      forged(strings.Repeat("x", 32), purpose, "test", endpoint),
			"another purpose":  forged(migrationKey, "runtime migration", "test", endpoint),
			"another toolset":  forged(migrationKey, purpose, "other", endpoint),
			"another instance": forged(migrationKey, purpose, "test", "https://c.example/invoke"),
			"altered header":   good[:30] + string(good[30]^1) + good[31:],
			"altered payload":  good[:len(good)-1] + string(good[len(good)-1]^1),
			"no payload":       good[:4+binary.BigEndian.Uint32([]byte(good))],
		} {
			if w := m.push(body); w.Code != 401 || strings.Contains(w.Body.String(), "thread") {
				t.Errorf("%s: answered %d %s, want 401", name, w.Code, w.Body)
			}
		}
		if m.there.imports > 0 || m.there.get("thread-1") != "" {
			t.Error("something was imported")
		}
		if w := m.push(good); w.Code != 200 || m.there.imports != 1 {
			t.Fatalf("who has the key is answered %d; the rest of this test shows nothing", w.Code)
		}
		large := toolserver.Transfer(migrationKey, purpose, "stage", "t2", "test", endpoint, "thread-1", make([]byte, 64<<20))
		if w := m.push(string(large)); w.Code != 200 { // it is read, and is no payload
			t.Errorf("64 MiB: %d", w.Code)
		}
		if w := m.push(string(large) + strings.Repeat("x", 1000)); w.Code != 413 {
			t.Errorf("more than 64 MiB: %d", w.Code)
		}
		<-time.After(6 * time.Minute)
		if w := m.push(good); w.Code != 401 {
			t.Errorf("an old transfer is answered %d", w.Code)
		}
		m.close()
		m.dst.close()
	})
}

// TestG12_Replayed (N85) sends what was on the road again, and mixes two sessions.
func TestG12_Replayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 10)
		m := newMove(t, addStation(ran))
		m.notes.set("thread-1", "one")
		m.notes.set("thread-2", "two")
		m.call("long", "c1", `{"For":60000000000}`)
		<-ran
		m.mustMigrate()
		<-ran
		if w := m.post("/migrate", `{"session_id":"thread-2","destination_url":"`+destination+`"}`); w.Code != 200 {
			t.Fatal(w.Body)
		}
		m.there.set("thread-1", "newer")
		<-time.After(2 * time.Minute)
		m.dst.nextResult()
		bodies := m.road.bodies()
		if len(bodies) != 4 {
			t.Fatalf("%d transfers, want stage and commit twice", len(bodies))
		}
		for range 2 {
			for _, b := range bodies {
				m.push(b)
			}
		}
		synctest.Wait()
		if m.there.imports != 2 || m.there.get("thread-1") != "newer" || len(ran) > 0 {
			t.Errorf("replayed: %d imports, state %q, %d functions", m.there.imports, m.there.get("thread-1"), len(ran))
		}
		header := func(b string) int { return 4 + int(binary.BigEndian.Uint32([]byte(b))) }
		one, two := bodies[0], bodies[2]
		if w := m.push(one[:header(one)] + two[header(two):]); w.Code != 401 {
			t.Errorf("the header of one session with the payload of another: %d", w.Code)
		}
		m.close()
		m.dst.close()
	})
}

// TestG12_Payloads has the key and sends payloads that reach for what is not theirs.
func TestG12_Payloads(t *testing.T) {
	inv := func(group, callback string) string {
		return `{"operation":"add","arguments":{},"id":"c1","group_id":` + group + `,"callback_url":"` + callback + `"}`
	}
	call := func(runtime, inv, phase, queue string) string {
		return `{"version":2,"place":{"Runtime":"rt","Session":"thread-1"},"calls":[{"runtime":"` + runtime + `","invocation":` + inv +
			`,"phase":"` + phase + `","address":"https://runtime.example/cb","number":1,"queue":` + queue + `}],"done":null,"grants":null}`
	}
	good := inv(`"thread-1"`, "https://runtime.example/cb")
	done := func(key, print, address, age int, result int) string {
		all, err := json.Marshal(map[string]any{"key": make([]byte, key), "print": make([]byte, print), "address": make([]byte, address), "age": age, "result": make([]byte, result)})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(call("rt", good, "running", "[]"), `"done":null`, `"done":[`+string(all)+`]`, 1)
	}
	for name, c := range map[string]struct {
		session string
		ok      bool
	}{
		"good":               {call("rt", good, "running", "[]"), true},
		"another session":    {call("rt", inv(`"thread-2"`, "https://runtime.example/cb"), "running", "[]"), false},
		"another runtime":    {call("other", good, "running", "[]"), false},
		"finished":           {call("rt", good, "finished", "[]"), false},
		"no invocation":      {call("rt", `{}`, "running", "[]"), false},
		"message of another": {call("rt", good, "running", queued("view_update", `{"type":"view_update","group_id":"thread-2","view_type":"v","content":{}}`)), false},
		"message of another call": {
			call("rt", good, "resolved", queued("tool_result", `{"type":"tool_result","group_id":"thread-1","id":"c2","text":"x"}`)), false},
		"its message": {call("rt", good, "resolved", queued("tool_result", `{"type":"tool_result","group_id":"thread-1","id":"c1","text":"x"}`)), true},
		"message of another kind": {
			call("rt", good, "resolved", queued("tool_result", `{"type":"oauth","group_id":"thread-1","id":"c1","auth_url":"https://idp.example"}`)), false},
		"no message":        {call("rt", good, "resolved", queued("tool_result", `{}`)), false},
		"its view":          {call("rt", good, "running", queued("view_update", `{"type":"view_update","group_id":"thread-1","view_type":"v","content":{}}`)), true},
		"question":          {strings.Replace(call("rt", good, "running", "[]"), `"number"`, `"questions":[{"ID":"x","Text":"","Nth":0,"Choices":2,"At":"2026-01-02T03:04:05Z","Selected":null}],"number"`, 1), false},
		"answered question": {strings.Replace(call("rt", good, "running", "[]"), `"number"`, `"questions":[{"ID":"x","Text":"","Nth":0,"Choices":2,"At":"2026-01-02T03:04:05Z","Selected":1}],"number"`, 1), true},
		"address":           {strings.Replace(call("rt", good, "running", "[]"), `"number"`, `"before":["eA=="],"number"`, 1), false},
		"large result":      {strings.Replace(call("rt", good, "running", "[]"), `"number"`, `"result":"`+strings.Repeat("eHh4", 30_000)+`","number"`, 1), false},
		"duplicate members": {strings.Replace(call("rt", good, "running", "[]"), `"version":2`, `"version":2,"version":2`, 1), false},
		"unknown members":   {strings.Replace(call("rt", good, "running", "[]"), `"version":2`, `"version":2,"files":[]`, 1), false},
		"another version":   {strings.Replace(call("rt", good, "running", "[]"), `"version":2`, `"version":1`, 1), false},
		"another name":      {strings.Replace(call("rt", good, "running", "[]"), `"Session":"thread-1"`, `"Session":"thread-2"`, 1), false},
		"done":              {done(16, 16, 8, 7, 1000), true},
		"done, short key":   {done(15, 16, 8, 7, 0), false},
		"done, long print":  {done(16, 17, 8, 7, 0), false},
		"done, no address":  {done(16, 16, 0, 7, 0), false},
		"done later":        {done(16, 16, 8, -7, 0), false},
		"done, large":       {done(16, 16, 8, 7, 64<<10+1), false},
		"grants":            {strings.Replace(call("rt", good, "running", "[]"), `"grants":null`, `"grants":[`+strings.Repeat(`{},`, 64)+`{}]`, 1), false},
		"trailing":          {call("rt", good, "running", "[]") + "{}", false},
		"deep":              {strings.Repeat("[", 100_000), false},
		"null":              {"null", false},
		"nothing":           {"", false},
	} {
		err := toolserver.ReadPayload(toolserver.Payload(c.session, nil), "rt", "thread-1")
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "null", "[]", `{"session":7}`, `{"files":[]}`, string(toolserver.Payload(call("rt", good, "running", "[]"), nil)) + "{}"} {
		if toolserver.ReadPayload([]byte(text), "rt", "thread-1") == nil {
			t.Errorf("%.40s is accepted", text)
		}
	}
}

// queued returns the queue of a call with one message.
func queued(kind, body string) string {
	all, err := json.Marshal([]any{map[string]any{"kind": kind, "id": "msg_1", "body": []byte(body), "number": 1}})
	if err != nil {
		panic(err)
	}
	return string(all)
}

// TestG12_NamesAreNoPaths moves sessions whose names would be paths, and looks at the
// files (threats 26, 33).
func TestG12_NamesAreNoPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		for i, id := range []string{"../../../../escape", "/etc/escape", `..\..\escape`, "C:escape", "a/b/escape", "%2e%2e%2fescape", "~/escape", strings.Repeat("escape", 100)} {
			m.notes.set(id, "state")
			m.call("add", fmt.Sprint("c", i), `{"a":1,"b":2}`, thread(id))
			m.nextResult()
			if w := m.post("/migrate", mustJSON(t, map[string]string{"session_id": id, "destination_url": destination})); w.Code != 200 {
				t.Errorf("%.20q: %d %s", id, w.Code, w.Body)
			}
			if m.there.get(id) != "state" {
				t.Errorf("%.20q has not moved", id)
			}
			m.post("/close_thread", mustJSON(t, map[string]string{"thread_id": id}))
		}
		m.close()
		m.dst.close()
		for _, folder := range []string{m.opts.State, m.dst.opts.State} {
			files, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if n := f.Name(); n != "toolserver.db" && n != "toolserver.mark" && n != "keys.json" && n != "history" {
					t.Errorf("there is a file %q", f.Name())
				}
			}
		}
	})
}

// FuzzPayload looks for payloads that panic, or that are accepted and are not of the
// session.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"version":2,"place":{"Runtime":"rt","Session":"s"},"calls":[{"runtime":"rt","invocation":{"operation":"o","arguments":{},"id":"i","group_id":"s","callback_url":"https://r.example/"},"phase":"running"}],"done":[],"grants":[]}`))
	f.Add([]byte(`{"version":2,"place":{"Runtime":"rt","Session":"s"},"calls":[{"runtime":"rt","invocation":{"operation":"o","arguments":{},"id":"i","group_id":"c","thread_ancestors":["s"],"callback_url":"https://r.example/"},"phase":"resolved","number":1,"queue":` +
		queued("tool_result", `{"type":"tool_result","group_id":"c","id":"i","text":"x"}`) + `}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if toolserver.ReadPayload(toolserver.Payload(string(data), nil), "rt", "s") != nil {
			return
		}
		var p struct {
			Place struct{ Runtime, Session string } `json:"place"`
			Calls []struct {
				Runtime    string `json:"runtime"`
				Invocation struct {
					Group     string   `json:"group_id"`
					Ancestors []string `json:"thread_ancestors"`
				} `json:"invocation"`
			} `json:"calls"`
		}
		if err := strict.Unmarshal(data, &p); err != nil { // which knows Group_ID from group_id
			t.Fatalf("accepts %q: %v", data, err)
		}
		for _, c := range p.Calls {
			root := append(c.Invocation.Ancestors, c.Invocation.Group)[0]
			if p.Place.Session != "s" || p.Place.Runtime != "rt" || c.Runtime != "rt" || root != "s" {
				t.Fatalf("accepts %q, which has a call of %q", data, root)
			}
		}
	})
}
