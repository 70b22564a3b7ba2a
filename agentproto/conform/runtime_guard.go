package conform

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Cases Z: forged and repeated callbacks, and addresses that a runtime must not connect to
// (doc/protocol.md §11).

// spellings returns URLs with different spellings of this host, and of internal addresses, at a
// port.
func spellings(port string) []string {
	hosts := []string{
		"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.2", "localhost", "LOCALHOST.", "0.0.0.0", "0",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]",
		"10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.0.0.1", "192.168.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "[fc00::1]", "[ff02::1]",
	}
	for i, host := range hosts {
		hosts[i] = "http://" + host + ":" + port + "/respond"
	}
	return hosts
}

// altered returns altered forms of a callback URL, by description. The runtime did not make any of
// them.
func altered(raw string, other string) map[string]string {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	path := func(p string) string { c := *u; c.Path = p; return c.String() }
	last := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	flip := func(i int) string {
		i += len(u.Path) - len(last)
		c := byte('A')
		if u.Path[i] == c {
			c = 'B'
		}
		return path(u.Path[:i] + string(c) + u.Path[i+1:])
	}
	forms := map[string]string{
		"without its end": path(strings.TrimSuffix(u.Path, last)), "without the last letter": path(u.Path[:len(u.Path)-1]),
		"with a letter more": path(u.Path + "A"), "of nobody": path("/rap/v1/cb/k/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
	}
	if len(last) >= 16 { // a shorter last element is not itself a secret, and another letter names something else
		for i := range 16 {
			forms[fmt.Sprint("with another letter ", i)] = flip(i * len(last) / 17)
		}
	}
	if o, err := url.Parse(other); err == nil && o.Path != u.Path {
		if theirs := o.Path[strings.LastIndexByte(o.Path, '/')+1:]; len(theirs) == len(last) && len(last) >= 16 {
			forms["half another's"] = path(strings.TrimSuffix(u.Path, last) + last[:len(last)/2] + theirs[len(last)/2:])
		}
	}
	return forms
}

func caseZ01(t *runtimeTrial) {
	s, h := t.one()
	h.say(call("c"), call("other"))
	inv, other := s.await("c"), s.await("other")
	var answer string
	for name, forged := range altered(inv.CallbackURL, other.CallbackURL) {
		p := t.post(forged, jsonOf(inv.resultOf("forged")))
		t.want(p.Status == 404 || p.Status == 403, "a callback URL %s was answered %d, not 404 or 403", name, p.Status)
		if answer == "" {
			answer = fmt.Sprint(p.Status)
		}
		t.want(answer == fmt.Sprint(p.Status), "forged callback URLs are answered differently, %s and %d, which tells how near one is", answer, p.Status)
	}
	p := t.post(other.CallbackURL, jsonOf(inv.resultOf("forged")))
	t.want(p.Status == 404 || p.Status == 403, "another call's URL was answered %d, not 404 or 403", p.Status)
	h.waits("c")
	h.waits("other")
	s.finish(inv, "genuine")
	s.finish(other, "genuine too")
	h.resolved("c", "genuine")
	h.resolved("other", "genuine too")
	t.expired()
}

// expired requires a callback URL that is older than its call may become to be invalid.
func (t *runtimeTrial) expired() {
	if !t.has(PartLifetime) {
		return
	}
	t.p.kill()
	t.config.TimeoutsMS.Call, t.config.TimeoutsMS.Callback = 300, 300
	t.start()
	h := t.session("expired")
	inv := t.servers[0].begin(h, "c")
	h.failed("c")
	t.until("the callback URL expires", func() bool {
		p := t.post(inv.CallbackURL, jsonOf(inv.resultOf("too late")))
		return p.Status == 404 || p.Status == 403
	})
	h.result("c")
}

func caseZ02(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	body := jsonOf(inv.resultOf("captured"))
	stamp := []string{"webhook-id", "msg_captured", "webhook-timestamp", fmt.Sprint(time.Now().Unix())}
	p := t.post(inv.CallbackURL, body, stamp...)
	t.want(p.Status == 200, "a result with a webhook-id was answered %d", p.Status)
	h.resolved("c", "captured")
	h.unchanged("a captured request that is replayed", func() {
		p := t.post(inv.CallbackURL, body, stamp...)
		t.want(p.Status == 200 || p.refused(), "a replayed request was answered %d", p.Status)
	})
	if !t.has(PartSubscriptions) || !t.has(PartWebhookID) {
		return
	}
	sub := s.subscribe(h, "sub")
	event := jsonOf(sub.eventOf("captured event"))
	stamp[1] = "msg_event"
	for range 3 {
		p := t.post(sub.CallbackURL, event, stamp...)
		t.want(p.Status == 200 || p.refused(), "a replayed event was answered %d", p.Status)
	}
	h.events("sub", 1)
	t.never("a replayed event is shown", func() bool { return len(h.see().messages(RoleEvent, "sub")) != 1 })
}

func caseZ03(t *runtimeTrial) {
	s, second := t.server("tools"), t.server("second")
	t.start()
	h := t.session("s")
	h.say(call("a"), call("b"), callOf("theirs", "second", fields{}))
	a, b, theirs := s.await("a"), s.await("b"), second.await("theirs")
	crossed := []struct {
		url  string
		body map[string]any
	}{
		{a.CallbackURL, b.resultOf("crossed")}, {b.CallbackURL, a.resultOf("crossed")},
		{theirs.CallbackURL, a.resultOf("crossed")}, {a.CallbackURL, theirs.resultOf("crossed")},
		{theirs.CallbackURL, a.oauthOf(authURL)}, {theirs.CallbackURL, a.choiceOf(second.base + "/respond")}, {theirs.CallbackURL, a.eventOf("crossed")},
	}
	for _, x := range crossed {
		p := t.message(x.url, x.body)
		t.want(p.Status == 403, "a URL of one call with the ids of another was answered %d, not 403: %.200s", p.Status, jsonOf(x.body))
	}
	for _, id := range []string{"a", "b", "theirs"} {
		h.waits(id)
	}
	t.want(len(h.see().Prompts) == 0, "the user is asked by a tool that was not called")
	for _, inv := range []*invocation{a, b} {
		s.finish(inv, "of "+inv.ID)
	}
	second.finish(theirs, "of theirs")
	h.resolved("theirs", "of theirs")
}

func caseZ04(t *runtimeTrial) {
	hole := t.sink()
	t.server("good")
	var hostile []*scriptedTool
	for i, address := range append(spellings(hole.port()), "http://"+hole.address+"/x", "file:///etc/passwd", "gopher://127.0.0.1:70/", "unix:///run/x.sock") {
		s := t.server(fmt.Sprint("hostile", i))
		s.extra = fields{"endpoint": address}
		hostile = append(hostile, s)
	}
	moved := t.server("moved")
	moved.onGet = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+hole.address+"/", http.StatusFound)
	}
	t.start()
	s := t.open("s")
	t.offers(s, "echo")
	for _, bad := range append(hostile, moved) {
		t.reports(s, bad)
	}
	h := &trialThread{t, "s"}
	good := t.servers[0]
	for i, address := range spellings(hole.port()) {
		id := fmt.Sprintf("c%d", i)
		inv := good.begin(h, id)
		t.message(inv.CallbackURL, inv.choiceOf(address))
		h.refuses(id)
	}
	hole.untouched(t)
}
