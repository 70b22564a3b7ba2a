package conform

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Cases W: how the callback endpoint handles malformed bodies and requests (doc/protocol.md §2 and
// §5.1).

// raw returns a tool_result as text, with more inserted before its end.
func (inv *invocation) raw(more string) string {
	return strings.TrimSuffix(jsonOf(inv.resultOf("raw")), "}") + more + "}"
}

// malformed posts malformed bodies, each about its own call. Each must be answered 400, and none may
// appear as a result. The call must either continue or end with an error, so that a tool that gives up
// leaves no pending call.
func (t *runtimeTrial) malformed(bodies map[string]func(inv *invocation) string) {
	s, h := t.one()
	for name, body := range bodies {
		inv := s.begin(h, name)
		p := t.post(inv.CallbackURL, body(inv))
		t.want(p.Status == 400, "a body with %s was answered %d (%v), not 400", name, p.Status, p.Err)
		if h.see().pending(name) != nil {
			p := t.message(inv.CallbackURL, inv.resultOf("after all"))
			t.want(p.Status == 200, "after a body with %s a good result was answered %d", name, p.Status)
		}
		m := h.result(name)
		t.want(m.failed() || m.text() == "after all", "a body with %s was taken as the result %.100q", name, m.text())
	}
}

func caseW01(t *runtimeTrial) {
	t.malformed(map[string]func(*invocation) string{
		"text twice":       func(inv *invocation) string { return inv.raw(`,"text":"again"`) },
		"id twice":         func(inv *invocation) string { return inv.raw(`,"id":"other"`) },
		"type twice":       func(inv *invocation) string { return inv.raw(`,"type":"tool_result"`) },
		"escaped twice":    func(inv *invocation) string { return inv.raw(`,"te\u0078t":"again"`) },
		"an unknown twice": func(inv *invocation) string { return inv.raw(`,"x":1,"x":2`) },
		"one deep twice":   func(inv *invocation) string { return inv.raw(`,"x":{"a":1,"a":2}`) },
	})
}

func caseW02(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	p := t.message(inv.CallbackURL, with(inv.resultOf("right"), fields{"Group_ID": "other", "TEXT": "wrong", "Id": "other", "Subscription": true}))
	t.want(p.Status == 200, "members in another case were answered %d", p.Status)
	h.resolved("c", "right")
	t.want(len(h.see().Subscriptions) == 0, "a member in another case opened a subscription")
	inv = s.begin(h, "d")
	p = t.post(inv.CallbackURL, jsonOf(fields{"Type": "tool_result", "group_id": inv.GroupID, "id": inv.ID, "text": "wrong"}))
	t.want(p.Status == 400, "a message without type was answered %d", p.Status)
}

func caseW03(t *runtimeTrial) {
	t.malformed(map[string]func(*invocation) string{
		"bad UTF-8":            func(inv *invocation) string { return inv.raw(",\"x\":\"\xff\xfe\"") },
		"an overlong form":     func(inv *invocation) string { return inv.raw(",\"x\":\"\xc0\xaf\"") },
		"an encoded surrogate": func(inv *invocation) string { return inv.raw(",\"x\":\"\xed\xa0\x80\"") },
		"a lone surrogate":     func(inv *invocation) string { return inv.raw(`,"x":"\ud800"`) },
		"a low surrogate":      func(inv *invocation) string { return inv.raw(`,"x":"\udc00x"`) },
		"bad UTF-8 in a name":  func(inv *invocation) string { return inv.raw(",\"\xff\":1") },
	})
}

func nested(n int, open, end string) string {
	return strings.Repeat(open, n) + "1" + strings.Repeat(end, n)
}

func caseW04(t *runtimeTrial) {
	t.malformed(map[string]func(*invocation) string{
		"65 arrays":          func(inv *invocation) string { return inv.raw(`,"x":` + nested(65, "[", "]")) },
		"10000 arrays":       func(inv *invocation) string { return inv.raw(`,"x":` + nested(10_000, "[", "]")) },
		"10000 objects":      func(inv *invocation) string { return inv.raw(`,"x":` + nested(10_000, `{"a":`, "}")) },
		"100000 open arrays": func(inv *invocation) string { return inv.raw(`,"x":` + strings.Repeat("[", 100_000)) },
	})
}

func caseW05(t *runtimeTrial) {
	t.malformed(map[string]func(*invocation) string{
		"trailing data": func(inv *invocation) string { return inv.raw("") + "x" },
		"two values":    func(inv *invocation) string { return inv.raw("") + inv.raw("") },
		"an array":      func(inv *invocation) string { return "[" + inv.raw("") + "]" },
		"a string":      func(inv *invocation) string { return `"tool_result"` },
		"null":          func(inv *invocation) string { return "null" },
		"nothing":       func(inv *invocation) string { return "" },
		"a BOM":         func(inv *invocation) string { return "\ufeff" + inv.raw("") },
		"a comment":     func(inv *invocation) string { return inv.raw(",/* */\"x\":1") },
		"half of it":    func(inv *invocation) string { return inv.raw("")[:40] },
	})
}

func caseW06(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	p := t.message(inv.CallbackURL, with(inv.resultOf("right"), fields{
		"toolset_version": "7", "x-future": fields{"deep": []any{1, nil, true}}, "": 0, "__proto__": fields{"a": 1},
	}))
	t.want(p.Status == 200, "unknown members were answered %d", p.Status)
	h.resolved("c", "right")
}

func caseW07(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		p := t.send(method, inv.CallbackURL, strings.NewReader(jsonOf(inv.resultOf("x"))))
		t.want(p.Status == 405, "a %s was answered %d, not 405", method, p.Status)
	}
	h.waits("c")
	u, err := url.Parse(inv.CallbackURL)
	t.must(err)
	for _, path := range []string{"/", "/elsewhere", u.Path + "/more", strings.ToUpper(u.Path)} {
		other := *u
		other.Path = path
		p := t.post(other.String(), jsonOf(inv.resultOf("x")))
		t.want(p.Status == 404, "a POST to another path was answered %d, not 404", p.Status)
	}
	h.waits("c")
	s.finish(inv, "after all")
	h.resolved("c", "after all")
	for _, header := range []string{"text/plain", "application/x-www-form-urlencoded"} {
		id := "of " + header
		inv := s.begin(h, id)
		p := t.post(inv.CallbackURL, jsonOf(inv.resultOf("x")), "Content-Type", header)
		t.want(p.Status == 415, "Content-Type %q was answered %d, not 415", header, p.Status)
	}
	inv = s.begin(h, "charset")
	p := t.post(inv.CallbackURL, jsonOf(inv.resultOf("fine")), "Content-Type", "application/json; charset=utf-8")
	t.want(p.Status == 200, "Content-Type application/json with charset was answered %d", p.Status)
	h.resolved("charset", "fine")
}

// zeros is an endless body that counts the bytes read. The client may still read it after the answer
// has arrived.
type zeros struct {
	read  atomic.Int64
	limit int64
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.read.Load() >= z.limit {
		return 0, io.EOF
	}
	n := copy(p, bytes.Repeat([]byte(" "), min(len(p), 64<<10)))
	z.read.Add(int64(n))
	return n, nil
}

func caseW08(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "chunked")
	body := &zeros{limit: 64 << 20}
	p := t.send(http.MethodPost, inv.CallbackURL, body)
	t.want(p.Status == 413 || p.Err != nil, "a body of 64 MB in chunks was answered %d, not 413", p.Status)
	// Data in the buffers of both systems, which may be 10 MB, counts as read here. A runtime may also
	// read on after its answer, for a client that reads the answer only after it has sent everything.
	read := body.read.Load()
	t.want(read < 48<<20, "the runtime read %d bytes of a body that is too large", read)
	h.failed("chunked")

	inv = s.begin(h, "announced")
	u, err := url.Parse(inv.CallbackURL)
	t.must(err)
	conn := t.dial(u.Host)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", u.RequestURI(), u.Host, 64<<20)
	t.must(conn.SetReadDeadline(time.Now().Add(patience)))
	answer, err := io.ReadAll(conn) // until the runtime closes the connection
	t.want(err == nil, "a connection with a body that is too large is not closed: %v", err)
	t.want(bytes.HasPrefix(answer, []byte("HTTP/1.1 413 ")), "an announced body of 64 MB was answered %.60q, not 413", answer)
	h.failed("announced")
}

func (t *runtimeTrial) dial(address string) net.Conn {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.ctx, "tcp", address)
	t.must(err)
	t.after(func() { conn.Close() })
	return conn
}

// closes requires the other end to close a connection within a time.
func (t *runtimeTrial) closes(conn net.Conn, within time.Duration, what string) {
	t.must(conn.SetReadDeadline(time.Now().Add(within)))
	_, err := io.Copy(io.Discard, conn)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.failf("%s is still open after %v", what, within)
	}
}

// crowd opens connections and sends nothing on them: 10,000, or as many as this machine permits, but
// at least 100.
func (t *runtimeTrial) crowd(address string) (idle []net.Conn) {
	t.after(func() {
		for _, conn := range idle {
			conn.Close()
		}
	})
	for len(idle) < 10_000 {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.ctx, "tcp", address)
		if err != nil {
			break
		}
		idle = append(idle, conn)
	}
	t.want(len(idle) >= 100, "the runtime takes only %d connections", len(idle))
	return idle
}

func caseW09(t *runtimeTrial) {
	t.config.TimeoutsMS.ReadHeader, t.config.TimeoutsMS.Read = 700, 1500
	s, h := t.one()
	inv := s.begin(h, "c")
	u, err := url.Parse(inv.CallbackURL)
	t.must(err)
	headers, body := t.dial(u.Host), t.dial(u.Host)
	fmt.Fprintf(headers, "POST %s HTTP/1.1\r\nHost: %s\r\n", u.RequestURI(), u.Host)
	fmt.Fprintf(body, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"type\":", u.RequestURI(), u.Host)
	idle := t.crowd(u.Host)
	begun := time.Now()
	other := h.beside("s2")
	s.finish(s.begin(other, "d"), "served meanwhile")
	other.resolved("d", "served meanwhile")
	t.want(time.Since(begun) < 3*time.Second, "slow and idle connections held up a call for %v", time.Since(begun))
	t.closes(headers, patience, "a connection whose header does not end")
	t.closes(body, patience, "a connection whose body does not end")
	for _, conn := range []net.Conn{idle[0], idle[len(idle)-1]} {
		t.closes(conn, patience, "a connection on which nothing is sent")
	}
	h.waits("c")
}

func caseW10(t *runtimeTrial) {
	s, h := t.one()
	for i, number := range []string{"2.0", "2e0", "1e400", "9223372036854775808", "-0", "0.5", strings.Repeat("9", 10_000), "1e-400", "02", "+1", "NaN"} {
		id := fmt.Sprintf("c%d", i)
		inv := s.begin(h, id)
		body := strings.Replace(jsonOf(inv.choiceOf(s.base+"/respond")), `"default":2`, `"default":`+number, 1)
		p := t.post(inv.CallbackURL, body)
		switch {
		case p.Status == 200:
			prompt := h.prompt(id)
			t.want(prompt.Default >= 0 && prompt.Default < 3, "default %.20s became %d", number, prompt.Default)
			s.finish(inv, "taken")
			h.resolved(id, "taken")
		default:
			t.want(p.Status == 400, "default %.20s was answered %d (%v)", number, p.Status, p.Err)
			h.failed(id)
		}
		inv = s.begin(h, "x"+id)
		p = t.post(inv.CallbackURL, inv.raw(`,"x":`+number))
		t.want(p.Status == 200 || p.Status == 400, "an unknown member %.20s was answered %d (%v)", number, p.Status, p.Err)
		h.result("x" + id)
	}
}

func caseW11(t *runtimeTrial) {
	s, h := t.one()
	ids := []string{"line\r\nX-Injected: yes", "nul\x00", "a/../../b", strings.Repeat("i", 10_000), "emoji 😀", "quote\"back\\slash", "tab\t", "percent%2e%2e%2f"}
	for _, id := range ids {
		before := len(s.all())
		h.say(call(id))
		t.until(fmt.Sprintf("the call %.30q is sent or ends", id), func() bool {
			return len(s.all()) > before || len(h.see().Calls) == 0
		})
		for _, inv := range s.all()[before:] { // with this id, or another one instead
			for name, values := range inv.Header {
				t.want(!strings.Contains(strings.Join(values, " "), id) && name != "X-Injected", "the id %.30q is in the header %s", id, name)
			}
			p := t.message(inv.CallbackURL, inv.resultOf("carried"))
			t.want(p.Status == 200, "the result of %.30q was answered %d", id, p.Status)
		}
		t.until(fmt.Sprintf("the call %.30q has ended", id), func() bool { return len(h.see().Calls) == 0 })
	}
	inv := s.begin(h, "plain")
	for _, id := range ids {
		for _, change := range []fields{{"id": id}, {"group_id": id}} {
			p := t.message(inv.CallbackURL, with(inv.resultOf("not mine"), change))
			t.want(p.Status == 200 || p.refused(), "a result with the id %.30q was answered %d", id, p.Status)
		}
	}
	for line := range strings.Lines(t.p.log.String()) {
		t.want(!strings.HasPrefix(line, "X-Injected") && !strings.Contains(line, "\x00"), "an id is written to the log as it is: %.200q", line)
	}
}
