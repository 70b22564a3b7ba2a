package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// missing reports whether the server lacks both notifications, which are optional: it then answers 404 or 405 to all of
// them.
func (c *toolCase) missing() bool {
	c.asked.Lock()
	defer c.asked.Unlock()
	if c.absent == nil {
		missing := c.isMissing()
		c.absent = &missing
	}
	return *c.absent
}

// lifecycle ends the trial as not applicable if the server lacks both notifications.
func (c *toolCase) lifecycle() {
	if c.missing() {
		c.lacks(cancelPath + " and " + closePath + " are answered 404 or 405: the server does not have them")
	}
}

// isMissing tests whether the server lacks both notifications. It must refuse notifications about unknown ids and about a
// call that it has just accepted, since a server with notifications may answer 404 for unknown ids.
func (c *toolCase) isMissing() bool {
	thread, id := c.thread(), unique("call")
	for _, role := range simple {
		if _, ok := c.profile.Roles[role]; ok {
			k := c.some(unique("cancelled"))
			k.send()
			thread, id = k.str("group_id"), k.str("id")
			break
		}
	}
	for _, about := range []fields{{"thread_id": thread, "tool_call_id": id}, {"thread_id": c.thread(), "tool_call_id": unique("call")}} {
		for _, path := range []string{cancelPath, closePath} {
			if got := c.post(c.base+path, about); got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
				return false
			}
		}
	}
	return true
}

// K04: a cancellation of nothing is accepted.
func (c *toolCase) cancelNothing() {
	c.lifecycle()
	c.accepted("the cancellation of an unknown call", c.post(c.base+cancelPath, fields{"thread_id": c.thread(), "tool_call_id": unique("call")}))
	k := c.some("done").start()
	k.worked()
	for range 2 {
		c.accepted("the cancellation of a call that has ended", k.cancel())
	}
	k.quiet("nothing after the result")
	slow := c.call("slow", vars{"NAME": unique("cancelled")}).start()
	for range 2 {
		c.accepted("the cancellation of a call, twice", slow.cancel())
	}
}

// K05: an id alone does not identify a call.
func (c *toolCase) cancelOtherThread() {
	c.lifecycle()
	k := c.call("slow", vars{"NAME": unique("wrong")}).start()
	c.accepted("the cancellation of an id in another thread", c.post(c.base+cancelPath, fields{"thread_id": c.thread(), "tool_call_id": k.str("id")}))
	c.accepted("the closing of another thread", c.post(c.base+closePath, fields{"thread_id": c.thread()}))
	k.what = "a call whose id was cancelled in another thread"
	if m := k.result(); m.isError() {
		c.fail(k.what, m, "its result")
	}
	if c.profile.OtherHeaders != nil {
		k := c.call("slow", vars{"NAME": unique("wrong")}).start()
		got := c.post(c.base+cancelPath, fields{"thread_id": k.str("group_id"), "tool_call_id": k.str("id")}, c.as())
		c.accepted("the cancellation of another runtime's call", got)
		k.what = "a call that another runtime has cancelled"
		if m := k.result(); m.isError() {
			c.fail(k.what, m, "its result")
		}
	}
}

// K06: a cancelled call stops. A cancellation may arrive before the tool has started, which then does not notice it; in one
// of several tries it arrives while the tool runs.
func (c *toolCase) cancelRunning() {
	c.lifecycle()
	const tries = 3
	_, peeks := c.profile.Roles["peek"]
	for try := 1; ; try++ {
		name := unique("stop")
		k := c.call("slow", vars{"NAME": name}).start()
		c.accepted("the cancellation of a call that runs", k.cancel())
		k.what = "a call that was cancelled while it ran"
		m, err := k.await(max(millis(c.limits.Quiet), 3*time.Second))
		if err == nil {
			if k.check(m); m.kind != "tool_result" || !m.isError() {
				c.fail(k.what, m, "no result, or one that is an error")
			}
			k.quiet("one result at most")
		}
		if !peeks {
			return
		}
		switch n := c.count("peek", name); {
		case n == 1:
			return
		case n != 0 || try == tries:
			c.fail(k.what, fmt.Sprintf("it noticed %d times", n), "it is told once that it is cancelled")
		}
	}
}

// K07: a question or authorization of a cancelled call cannot be answered.
func (c *toolCase) cancelDetour() {
	c.lifecycle()
	asked := false
	if _, ok := c.profile.Roles["choose"]; ok {
		asked = true
		k := c.call("choose", nil).start()
		q := k.next("user_choice")
		c.accepted("the cancellation of a call that asks the user", k.cancel())
		got := c.post(q.text("response_url"), fields{"id": k.str("id"), "selected": 0})
		c.status("an answer after the cancellation", got, 200, 400, 404, 410)
		k.what = "a call that was cancelled while it asked the user"
		k.atMostAnError()
	}
	if _, ok := c.profile.Roles["authorize"]; ok && c.profile.OAuth != nil {
		asked = true
		b, user := c.browser(), c.user()
		k := c.call("authorize", nil).set(fields{"user_id": unique("user")}).start()
		back := c.decide(b, k.next("oauth"), user, c.allow())
		c.accepted("the cancellation of a call that waits for authorization", k.cancel())
		c.alive()
		if p := c.open(b, back.String()); p.status < 400 {
			c.fail("a redirect after the cancellation", p, "status 400")
		}
		k.what = "a call that was cancelled while it waited for authorization"
		k.atMostAnError()
	}
	if !asked {
		c.lacks("no operation plays the role \"choose\" or \"authorize\"")
	}
}

// atMostAnError fails if a cancelled call gets a result that is not an error, or two results.
func (k *toolCall) atMostAnError() {
	m, err := k.await(millis(k.c.limits.Quiet))
	if err != nil {
		return
	}
	if k.check(m); m.kind != "tool_result" || !m.isError() {
		k.c.fail(k.what, m, "no result, or one that is an error")
	}
	k.quiet("one result at most")
}

// X04: ids are not used as file names, and unusual ids do no harm.
func (c *toolCase) strangeThreads() {
	c.lifecycle()
	probe := unique("escaped")
	ids := []string{
		"", "unknown", "../../etc/passwd", "../" + probe, "/" + probe, "..\\..\\" + probe, "a\x00b", "a\r\nX-Injected: 1",
		"%2e%2e%2f" + probe, strings.Repeat("x", 1<<20), strings.Repeat("../", 1000), "${HOME}", "'; DROP TABLE calls; --",
	}
	for _, id := range ids {
		for path, body := range map[string]fields{
			closePath:  {"thread_id": id},
			cancelPath: {"thread_id": id, "tool_call_id": id},
		} {
			data, err := json.Marshal(body)
			c.must(err, "encode")
			got, err := c.do(c.ctx, http.MethodPost, c.base+path, data)
			if err != nil && len(data) > 1<<20 {
				continue // refused while it was still being sent
			}
			c.must(err, "post")
			c.status(fmt.Sprintf("%s of %q", path, clip(id, 40)), got, 200, 400, 413, 422)
			if got.header.Get("X-Injected") != "" {
				c.fail(path, got.header, "no header out of an id")
			}
		}
	}
	for _, place := range []string{"/" + probe, "/tmp/" + probe, probe, "../" + probe} {
		if _, err := os.Lstat(place); err == nil {
			c.fail("an id that looks like a path", "the file "+place, "no effect on files")
		}
	}
	c.alive()
}

// X05: a failed cleanup is not reported to the runtime.
func (c *toolCase) cleanupFails() {
	c.lifecycle()
	k := c.call("messy", vars{"NAME": unique("messy")}).start()
	c.alive() // the call has started
	c.accepted("the closing of a thread whose cleanup fails", c.post(c.base+closePath, fields{"thread_id": k.str("group_id")}))
	c.accepted("the same again", c.post(c.base+closePath, fields{"thread_id": k.str("group_id")}))
	c.alive()
}

// E02: the status says whether a call is pending, and nothing else.
func (c *toolCase) callStatus() {
	if !c.profile.Status {
		c.lacks("the server does not answer " + statusPath + " (status)")
	}
	ask := func(thread, id string) *reply {
		return c.post(c.base+statusPath, fields{"thread_id": thread, "tool_call_id": id})
	}
	expect := func(what string, got *reply, alive bool) {
		if got.status != http.StatusOK || len(got.fields) != 1 || got.fields["alive"] != alive {
			c.fail("the status of "+what, got, fmt.Sprintf(`status 200 and {"alive":%v}`, alive))
		}
	}
	k := c.call("slow", vars{"NAME": unique("status")}).start()
	expect("a call that is pending", ask(k.str("group_id"), k.str("id")), true)
	expect("its id in another thread", ask(c.thread(), k.str("id")), false)
	if c.profile.OtherHeaders != nil {
		got := c.post(c.base+statusPath, fields{"thread_id": k.str("group_id"), "tool_call_id": k.str("id")}, c.as())
		expect("another runtime's call", got, false)
	}
	k.result()
	done := ask(k.str("group_id"), k.str("id"))
	for range 20 { // the acknowledgement of the result may still be on its way
		if done.fields["alive"] == false {
			break
		}
		c.alive()
		done = ask(k.str("group_id"), k.str("id"))
	}
	expect("a call that is done", done, false)
	expect("an unknown call", ask(c.thread(), unique("call")), false)
	if unknown := ask(c.thread(), unique("call")); !bytes.Equal([]byte(unknown.body), []byte(done.body)) {
		c.fail("the status of a call that is done and of none", done.body+" and "+unknown.body, "the same")
	}
	if len(c.profile.Headers) > 0 {
		got := c.post(c.base+statusPath, fields{"thread_id": c.thread(), "tool_call_id": "x"}, c.without())
		c.status("a status without credentials", got, http.StatusUnauthorized, http.StatusForbidden)
	}
}
