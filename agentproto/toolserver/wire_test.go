package toolserver_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// invocation returns the JSON of a call of add with one member changed or added.
func invocation(member, value string) string {
	m := map[string]string{"operation": `"add"`, "arguments": `{"a":1,"b":2}`, "id": `"c1"`, "group_id": `"g"`, "callback_url": `"https://runtime.example/cb"`}
	m[member] = value
	var parts []string
	for _, name := range []string{"operation", "arguments", "id", "group_id", "callback_url", "user_id", "Group_ID", "x-more", "thread_ancestors"} {
		if v, ok := m[name]; ok {
			parts = append(parts, fmt.Sprintf("%q:%s", name, v))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestW01_W11_Messages sends malformed messages to every endpoint of the server. None of them
// is executed, and none is answered with 500.
func TestW01_W11_Messages(t *testing.T) {
	good := invocation("id", `"c1"`)
	for name, body := range map[string]string{
		"W01 duplicate member":         good[:len(good)-1] + `,"id":"c2"}`,
		"W01 duplicate in arguments":   invocation("arguments", `{"a":1,"b":2,"a":3}`),
		"W01 duplicate by escape":      good[:len(good)-1] + `,"\u0069d":"c2"}`,
		"W02 other case only":          strings.Replace(good, `"group_id"`, `"Group_ID"`, 1),
		"W03 invalid UTF-8":            invocation("id", "\"c\xff\""),
		"W03 overlong UTF-8":           invocation("id", "\"c\xc0\xaf\""),
		"W03 lone surrogate":           invocation("id", `"c\ud800"`),
		"W04 nesting of 65":            invocation("x-more", strings.Repeat("[", 65)+strings.Repeat("]", 65)),
		"W04 nesting of 10,000":        invocation("x-more", strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)),
		"W05 trailing data":            good + "{}",
		"W05 trailing text":            good + " x",
		"W05 array":                    "[" + good + "]",
		"W05 byte order mark":          "\ufeff" + good,
		"W05 nothing":                  "",
		"W05 null":                     "null",
		"W10 number too large":         invocation("x-more", "1e400"),
		"W10 argument too large":       invocation("arguments", `{"a":1e400,"b":2}`),
		"W11 empty id":                 invocation("id", `""`),
		"W11 CR LF":                    invocation("id", `"c1\r\nX-Evil: 1"`),
		"W11 NUL":                      invocation("group_id", `"g\u0000"`),
		"W11 10 kB":                    invocation("group_id", `"`+strings.Repeat("g", 10<<10)+`"`),
		"W11 user with a line feed":    invocation("user_id", `"ada\nroot"`),
		"W11 ancestor with a NUL":      invocation("thread_ancestors", `["\u0000"]`),
		"A04 callback_url of a file":   invocation("callback_url", `"file:///etc/passwd"`),
		"A04 callback_url without one": invocation("callback_url", `null`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := newRuntime(t, toolserver.Options{Status: true})
				addTools(rt.server)
				if w := rt.post("/invoke", body); w.Code != 400 {
					t.Errorf("answered %d %s, want 400", w.Code, w.Body)
				}
				for _, path := range []string{"/cancel_tool_call", "/close_thread", "/tool_call_status"} {
					if w := rt.post(path, strings.ReplaceAll(body, "group_id", "thread_id")); w.Code != 200 && w.Code != 400 {
						t.Errorf("%s: %d", path, w.Code)
					}
				}
				rt.close()
				for line := range strings.Lines(rt.log.String()) {
					if strings.HasPrefix(line, "X-Evil") || strings.HasPrefix(line, "root") || strings.ContainsRune(line, 0) {
						t.Errorf("in the log: %q", line)
					}
				}
			})
		})
	}
}

// TestW06_W10_W11_Harmless sends messages that look strange but are valid JSON for an invocation.
func TestW06_W10_W11_Harmless(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"W02 other case beside":  {invocation("Group_ID", `"h"`), "3"},
		"W06 unknown members":    {invocation("x-more", `{"deep":[1,{"a":null}]}`), "3"},
		"W10 2.0":                {invocation("arguments", `{"a":2.0,"b":2}`), "4"},
		"W10 2^63":               {invocation("arguments", `{"a":9223372036854775808,"b":2}`), "Error: "},
		"W10 2e0":                {invocation("arguments", `{"a":2e0,"b":2.00}`), "4"},
		"W10 2.5":                {invocation("arguments", `{"a":2.5,"b":2}`), "Error: "},
		"W10 number as a string": {invocation("arguments", `{"a":"1","b":2}`), "Error: "},
		"W11 slashes and emoji":  {invocation("id", `"../../etc/😀"`), "3"},
		"arguments null":         {invocation("arguments", `null`), "Error: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, toolserver.Options{}, addTools)
				if w := h.post("/invoke", c.body); w.Code != 200 {
					t.Fatalf("answered %d %s", w.Code, w.Body)
				}
				m := h.next()
				r := m.Callback.(*agentproto.ToolResult)
				if got := r.String(); !strings.HasPrefix(got, c.want) || r.GroupID != "g" {
					t.Errorf("%q, thread %q", got, r.GroupID)
				}
				h.close()
			})
		})
	}
}

// zeros is a body without an end. It counts the bytes read, because the client may still read
// after the answer has arrived.
type zeros struct{ read atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	z.read.Add(int64(len(p)))
	clear(p)
	return len(p), nil
}

func TestW07_W08_Requests(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, toolserver.Options{})
	addTools(rt.server)
	web := httptest.NewServer(rt.server)
	defer web.Close()
	for _, path := range []string{"/", "/invoke/", "/Invoke", "/rap/v1", "/choice", "/../invoke"} {
		if w := rt.post(path, invocation("id", `"c1"`)); w.Code != 404 && w.Code != 405 && w.Code != 307 && w.Code != 301 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		w := httptest.NewRecorder()
		if rt.server.ServeHTTP(w, httptest.NewRequest(method, "/invoke", nil)); w.Code != 405 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if w := rt.post("/invoke", invocation("id", `"c1"`), "Content-Encoding", "gzip"); w.Code != 415 {
		t.Errorf("compressed: %d", w.Code)
	}
	if w := rt.post("/invoke", invocation("id", `"c2"`), "Content-Encoding", "Identity"); w.Code != 200 {
		t.Errorf("encoded as it is: %d %s", w.Code, w.Body)
	}
	rt.nextResult()
	if w := rt.post("/invoke", invocation("id", `"c1"`), "Origin", "https://evil.example"); w.Code != 403 {
		t.Errorf("from a browser: %d", w.Code)
	}
	for _, path := range []string{"/invoke", "/cancel_tool_call", "/close_thread"} {
		body := new(zeros)
		resp, err := http.Post(web.URL+path, "application/json", io.LimitReader(body, 64<<20)) // chunked: without a length
		if err != nil {
			continue // the connection was closed while there was more to send
		}
		resp.Body.Close()
		if read := body.read.Load(); resp.StatusCode != 413 || read > 32<<20 {
			t.Errorf("%s: %d after %d MiB", path, resp.StatusCode, read>>20)
		}
	}
	rt.close()
}

func TestX05_CleanupFails(t *testing.T) {
	h := newHouse(t, toolserver.Options{}, addTools)
	h.call("wait", "c1", "{}")
	h.end() // nothing can be written after this
	for _, path := range []string{"/close_thread", "/cancel_tool_call"} {
		if w := h.post(path, `{"thread_id":"thread-1","tool_call_id":"c1"}`); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
