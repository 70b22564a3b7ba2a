package conform

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// D01: the manifest is valid according to doc/protocol.md §3.2.
func (c *toolCase) manifestIsValid() {
	got, err := c.manifest(c.ctx, c.base, "")
	c.must(err, "ask for the manifest")
	wrong := func(expected string) { c.fail("GET "+wellKnown, got, expected) }
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
		wrong("status 200 and application/json")
	}
	text := func(m map[string]any, name string, longest int) string {
		s, ok := m[name].(string)
		if !ok || s == "" || longest > 0 && len(s) > longest {
			wrong(fmt.Sprintf("%q is a string that is neither empty nor too long", name))
		}
		return s
	}
	text(got.fields, "name", 128)
	if u, err := url.Parse(text(got.fields, "endpoint", 0)); err != nil || !u.IsAbs() || u.Host == "" {
		wrong("endpoint is an absolute URL")
	}
	tools, _ := got.fields["tools"].([]any)
	if len(tools) == 0 {
		wrong("tools is an array that is not empty")
	}
	names := make(map[string]bool)
	for _, x := range tools {
		tool, _ := x.(map[string]any)
		name := text(tool, "name", 128)
		text(tool, "description", 0)
		if _, ok := tool["inputSchema"].(map[string]any); !ok || names[name] {
			wrong(fmt.Sprintf("tool %q has a schema that is an object, and is there once", name))
		}
		names[name] = true
	}
	if d := c.profile.Destination; d != nil && got.fields["needsMigration"] != true {
		wrong("needsMigration, since the profile has a destination")
	}
}

// D02: a server whose manifest would be invalid does not start.
func (c *toolCase) brokenManifest() {
	if len(c.profile.Broken) == 0 {
		c.lacks("the profile has no commands that start a broken server")
	}
	for kind, argv := range c.profile.Broken {
		cmd := exec.CommandContext(c.ctx, argv[0], argv[1:]...)
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		c.must(c.ctx.Err(), "wait until the server with "+kind+" ends")
		if err == nil {
			c.fail("start with "+kind, "it ended as if all were well: "+string(out), "an exit status that is not 0")
		}
		if cmd.ProcessState == nil {
			c.must(err, "start the server with "+kind)
		}
	}
}

// D03: the endpoint does not depend on the Host header.
func (c *toolCase) hostIsNotReflected() {
	want := c.base
	if c.profile.PublicURL != "" {
		want = c.profile.PublicURL
	}
	got, err := c.manifest(c.ctx, c.base, "evil.example")
	c.must(err, "ask for the manifest")
	if got.status >= 400 && got.status < 500 {
		return // a server may refuse host names other than its own
	}
	if endpoint, _ := got.fields["endpoint"].(string); !strings.HasPrefix(endpoint, strings.TrimSuffix(want, "/")) {
		c.fail("GET with Host: evil.example", got, "an endpoint below "+want)
	}
}

// A01: acknowledgements are fast, since they do not wait for the operation.
func (c *toolCase) acknowledgesAtOnce() {
	c.alive() // opens the connection
	const n = 100
	limit := millis(c.limits.Ack)
	var took []time.Duration
	for range 3 { // a busy machine gets another chance
		took = took[:0]
		calls := make([]*toolCall, n)
		for i := range calls {
			calls[i] = c.call("slow", vars{"NAME": unique("ack")})
			begun := time.Now()
			calls[i].start()
			took = append(took, time.Since(begun))
			if i == 0 {
				if early := calls[i].line.all(); len(early) > 0 {
					c.fail("a call of role slow", early[0], "the result after the acknowledgement, of an operation that takes two seconds")
				}
			}
			calls[i].cancel()
		}
		slices.Sort(took)
		if took[n*99/100-1] <= limit || took[n/2] > limit {
			break
		}
	}
	if p99 := took[n*99/100-1]; p99 > limit {
		c.fail(fmt.Sprintf("%d calls of role slow", n), "the 99th of 100 acknowledged after "+p99.String(), "at most "+limit.String())
	}
	c.call("slow", vars{"NAME": unique("ack")}).start().result()
}

// A02: an unknown operation is reported in a result.
func (c *toolCase) unknownOperation() {
	k := c.invocation(unique("no_such_operation"), fields{})
	k.what = "a call of an unknown operation"
	k.start().bad()
	c.alive()
}

// A03: arguments that do not match the schema are reported in a result, without internals.
func (c *toolCase) badArguments() {
	m := c.call("invalid", nil).start().bad()
	for _, inside := range []string{"goroutine ", ".go:", "Traceback", "    at ", "panicked at", "json: cannot unmarshal"} {
		if strings.Contains(m.words(), inside) {
			c.fail("arguments that do not match", m, "words for a model, without "+inside)
		}
	}
}

// A04: an invalid invocation is refused, and nothing runs.
func (c *toolCase) badInvocation() {
	name := unique("bad")
	var all []*toolCall
	bad := func() *toolCall {
		k := c.some("bad")
		if _, ok := c.profile.Roles["count"]; ok {
			k = c.call("count", vars{"NAME": name})
		}
		all = append(all, k)
		return k
	}
	whole, err := json.Marshal(bad().body)
	c.must(err, "encode")
	c.status("half a message", c.post(c.endpoint, whole[:len(whole)/2]), 400, 422)
	c.status("nothing", c.post(c.endpoint, []byte{}), 400, 422)
	for _, member := range []string{"id", "callback_url", "group_id", "operation"} {
		k := bad()
		delete(k.body, member)
		c.status("an invocation without "+member, k.send(), 400, 422)
		c.status("an invocation whose "+member+" is a number", bad().set(fields{member: 7}).send(), 400, 422)
	}
	if _, ok := c.profile.Roles["count"]; !ok {
		c.some("good").start().worked()
		c.quietAll("nothing of an invocation that was refused", all...)
		return
	}
	if n := c.count("count", name); n != 1 {
		c.fail("invocations that are refused, and one that is not", fmt.Sprintf("the operation ran %d times", n), "once")
	}
}

// A05: only JSON is a message.
func (c *toolCase) otherMedia() {
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		k := c.some("x")
		c.status(fmt.Sprintf("an invocation with Content-Type %q", media), k.send(header("Content-Type", media)), http.StatusUnsupportedMediaType)
	}
	c.some("with a charset").start(header("Content-Type", "application/json; charset=utf-8")).worked()
}

// A06: a runtime that repeats an invocation does not make another call.
func (c *toolCase) sameKeyTwice() {
	name := unique("twice")
	k := c.call("count", vars{"NAME": name})
	k.start().start()
	k.good("1")
	k.start() // even after its end
	k.quiet("no second result")
	if n := c.count("count", name); n != 2 {
		c.fail("one key three times, then another", fmt.Sprintf("the operation ran %d times", n), "twice")
	}
}

// A07: an id alone does not identify a call.
func (c *toolCase) sameIDElsewhere() {
	id, thread := unique("call"), c.thread()
	one := c.some("first").set(fields{"id": id, "group_id": thread})
	two := c.some("second").set(fields{"id": id})
	three := c.some("third").set(fields{"id": id, "group_id": thread}).to(c.lineOf(1))
	one.start()
	two.start()
	if c.profile.OtherHeaders != nil {
		three.start(c.as())
	} else {
		three.start()
	}
	one.worked()
	two.worked()
	three.worked()
	for _, k := range []*toolCall{one, two, three} {
		if all := k.line.all(); len(all) != 1 {
			c.fail("one id in two threads and from two runtimes", fmt.Sprintf("%d messages at one callback", len(all)), "one")
		}
	}
}

// A08: a function that fails badly does not bring the server down.
func (c *toolCase) panics() {
	k := c.call("panic", nil).start()
	m := k.bad()
	for _, inside := range []string{"goroutine ", ".go:", "Traceback", "panicked at"} {
		if strings.Contains(m.words(), inside) {
			c.fail(k.what, m, "words for a model, without "+inside)
		}
	}
	c.alive()
}

// A09: an acknowledged call gets a result, whatever happens to the process.
func (c *toolCase) killedAfterAck() {
	c.restartable()
	k := c.call("slow", vars{"NAME": unique("killed")}).start()
	c.restart(nil)
	k.what = "a call, then kill -9 and a new start"
	k.within(millis(c.limits.Result)+millis(c.limits.Retry), "tool_result")
	k.quiet("one result")
}

// A10: a full server refuses a call instead of accepting it.
func (c *toolCase) queueFull() {
	most := c.limits.Calls
	if most == 0 {
		c.lacks("the profile does not say how many calls there may be at once (limits.calls)")
	}
	calls := make([]*toolCall, most+most/4+20)
	sent := make([]*reply, len(calls))
	for i := range calls {
		calls[i] = c.call("slow", vars{"NAME": unique("full")})
	}
	defer func() {
		for i, k := range calls {
			if sent[i] != nil && sent[i].status == http.StatusOK {
				k.cancel()
			}
		}
	}()
	// All at once, since the first ones end after some seconds.
	errs := c.together(len(calls), 16, func(i int) (err error) {
		sent[i], err = calls[i].do()
		return err
	})
	c.must(errors.Join(errs...), "post")
	full := -1
	for i, got := range sent {
		if c.status("a call of role slow", got, http.StatusOK, http.StatusServiceUnavailable); got.status == http.StatusServiceUnavailable {
			full = i
		}
	}
	if full < 0 {
		c.fail(fmt.Sprintf("%d calls of role slow", len(calls)), "all accepted", "status 503 for those beyond limits.calls")
	}
	calls[full].quiet("nothing, since the call was not accepted")
}

// A11: calls need credentials.
func (c *toolCase) unauthenticated() {
	if len(c.profile.Headers) == 0 {
		c.lacks("the profile has no credentials (headers)")
	}
	name := unique("stranger")
	k := c.call("count", vars{"NAME": name})
	c.status("an invocation without credentials", k.send(c.without()), http.StatusUnauthorized, http.StatusForbidden)
	for _, path := range []string{cancelPath, closePath} {
		if c.missing() {
			break
		}
		got := c.post(c.base+path, fields{"thread_id": k.str("group_id"), "tool_call_id": k.str("id")}, c.without())
		c.status(path+" without credentials", got, http.StatusUnauthorized, http.StatusForbidden)
	}
	if n := c.count("count", name); n != 1 {
		c.fail("a call without credentials, and one with them", fmt.Sprintf("the operation ran %d times", n), "once")
	}
}

// A12: the call_id is returned in every message about the call.
func (c *toolCase) callID() {
	id := unique("fc_ü\"")
	k := c.some("x").set(fields{"call_id": id}).start()
	k.worked()
	c.some("y").set(fields{"call_id": nil}).start().worked()
	if _, ok := c.profile.Roles["choose"]; ok {
		k := c.call("choose", nil).set(fields{"call_id": id}).start()
		k.next("user_choice")
		k.cancel()
	}
	if _, ok := c.profile.Roles["authorize"]; ok {
		k := c.call("authorize", nil).set(fields{"call_id": id, "user_id": unique("user")}).start()
		k.next("oauth")
		k.cancel()
	}
}

// C08: concurrent calls do not mix up their ids.
func (c *toolCase) callsAtOnce() {
	const n = 40
	calls, sent := make([]*toolCall, n), make([]*reply, n)
	for i := range calls {
		calls[i] = c.some(fmt.Sprintf("text of call %d.", i))
	}
	errs := c.together(n, n, func(i int) (err error) {
		sent[i], err = calls[i].do()
		return err
	})
	for i, k := range calls {
		c.must(errs[i], "post")
		c.status(k.what, sent[i], http.StatusOK)
		k.worked()
	}
	for _, k := range calls {
		if got := k.line.all(); len(got) != 1 {
			c.fail(fmt.Sprintf("%d calls at once", n), fmt.Sprintf("%d messages at one callback", len(got)), "one")
		}
	}
}
