package migrate

import (
	"encoding/json"
	"strings"
	"testing"

	strict "github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// encode returns what an instance sends for a session with this encoding.
func encode(session string) []byte {
	data, err := json.Marshal(payload{Session: []byte(session)})
	if err != nil {
		panic(err)
	}
	return data
}

// read decodes what an instance has sent for a session of the runtime rt.
func read(data []byte, session string) error {
	_, err := readPayload(data, tools.Place{Runtime: "rt", Session: session})
	return err
}

// TestG12_Payloads sends payloads from a sender that has the key and tries to reach other
// sessions' state.
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
		err := read(encode(c.session), "thread-1")
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "null", "[]", `{"session":7}`, `{"files":[]}`, string(encode(call("rt", good, "running", "[]"))) + "{}"} {
		if read([]byte(text), "thread-1") == nil {
			t.Errorf("%.40s is accepted", text)
		}
	}
}

// queued returns a call's queue with one message.
func queued(kind, body string) string {
	all, err := json.Marshal([]any{map[string]any{"kind": kind, "id": "msg_1", "body": []byte(body), "number": 1}})
	if err != nil {
		panic(err)
	}
	return string(all)
}

// FuzzPayload looks for payloads that panic, or that are accepted although they belong to
// another session.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"version":2,"place":{"Runtime":"rt","Session":"s"},"calls":[{"runtime":"rt","invocation":{"operation":"o","arguments":{},"id":"i","group_id":"s","callback_url":"https://r.example/"},"phase":"running"}],"done":[],"grants":[]}`))
	f.Add([]byte(`{"version":2,"place":{"Runtime":"rt","Session":"s"},"calls":[{"runtime":"rt","invocation":{"operation":"o","arguments":{},"id":"i","group_id":"c","thread_ancestors":["s"],"callback_url":"https://r.example/"},"phase":"resolved","number":1,"queue":` +
		queued("tool_result", `{"type":"tool_result","group_id":"c","id":"i","text":"x"}`) + `}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if read(encode(string(data)), "s") != nil {
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
		if err := strict.Unmarshal(data, &p); err != nil { // distinguishes Group_ID from group_id
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
