package conform

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A toolCall is an invocation and the messages about it.
type toolCall struct {
	c    *toolCase
	line *line
	body fields
	what string // for failure messages
	want string // text in the result of a call that only has to succeed
	like *regexp.Regexp
}

// role returns the operation of a role, or ends the trial if there is none.
func (c *toolCase) role(name string) Role {
	r, ok := c.profile.Roles[name]
	if !ok {
		c.lacks(fmt.Sprintf("no operation plays the role %q: %s", name, roles[name]))
	}
	return r
}

// unique returns a unique text.
func unique(prefix string) string { return prefix + "-" + rand.Text()[:12] }

// thread returns the id of a new thread.
func (c *toolCase) thread() string { return unique("conform-" + c.Case.ID) }

// line returns a callback address of the first runtime. It ends with the case.
func (c *toolCase) line(script ...answer) *line { return c.lineOf(0, script...) }

func (c *toolCase) lineOf(hub int, script ...answer) *line {
	l := c.hubs[hub].line(script...)
	c.after(l.end)
	return l
}

// vars are the values that replace the variables in the arguments of a role.
type vars map[string]string

// call returns a call of a role with its own thread, id and callback address. It is not sent yet.
func (c *toolCase) call(role string, v vars, script ...answer) *toolCall {
	r := c.role(role)
	args, err := r.arguments(v)
	c.must(err, "make arguments of role "+role)
	k := c.invocation(r.Operation, args, script...)
	k.what = "a call of role " + role
	return k
}

// invocation returns a call of an operation. It is not sent yet.
func (c *toolCase) invocation(operation string, args any, script ...answer) *toolCall {
	l := c.line(script...)
	return &toolCall{c: c, line: l, what: "a call of " + operation, body: fields{
		"operation": operation, "arguments": args, "id": unique("call"), "callback_url": l.url, "group_id": c.thread(),
	}}
}

// simple are the roles whose operations give a result by themselves, the fastest first.
var simple = []string{"echo", "any", "count", "peek", "slow"}

// some returns a call for cases in which any successful call will do. If the server can echo, the
// result must contain the text.
func (c *toolCase) some(text string, script ...answer) *toolCall {
	for _, role := range simple {
		r, ok := c.profile.Roles[role]
		if !ok {
			continue
		}
		k := c.call(role, vars{"TEXT": text, "NAME": unique("some")}, script...)
		if role == "echo" {
			k.want = text
		}
		if r.Result != "" {
			k.like = regexp.MustCompile(r.Result) // compiled by [ToolProfile.check] before
		}
		return k
	}
	c.lacks("no operation plays the role \"echo\" or \"any\", so that there is none whose result is known to be right")
	return nil
}

// worked waits for the result of a call made with some.
func (k *toolCall) worked() *message {
	m := k.good(k.want)
	if k.like != nil && !k.like.MatchString(m.words()) {
		k.c.fail(k.what, m, fmt.Sprintf("a result that matches %q", k.like))
	}
	return m
}

// set changes members of the invocation.
func (k *toolCall) set(f fields) *toolCall {
	maps.Copy(k.body, f)
	return k
}

// to changes the callback address.
func (k *toolCall) to(l *line) *toolCall {
	k.line = l
	return k.set(fields{"callback_url": l.url})
}

func (k *toolCall) str(name string) string { s, _ := k.body[name].(string); return s }

// send sends the invocation.
func (k *toolCall) send(changes ...change) *reply {
	defer k.c.waiting(millis(k.c.limits.Ack))()
	return k.c.post(k.c.endpoint, k.body, changes...)
}

// do sends the invocation. Unlike send, it may be called from any goroutine.
func (k *toolCall) do() (*reply, error) {
	body, err := json.Marshal(k.body)
	if err != nil {
		return nil, err
	}
	return k.c.do(k.c.ctx, http.MethodPost, k.c.endpoint, body)
}

// together calls f for the numbers below n, at most width at once, and returns its errors.
func (c *toolCase) together(n, width int, f func(int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	room := make(chan struct{}, width)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	return errs
}

// start sends the invocation, which must be accepted.
func (k *toolCall) start(changes ...change) *toolCall {
	if got := k.send(changes...); got.status != http.StatusOK {
		k.c.fail(k.what, got, "status 200")
	}
	return k
}

// next waits for the next message, which must be well-formed, belong to this call, and be of one of
// the kinds.
func (k *toolCall) next(kinds ...string) *message {
	return k.within(millis(k.c.limits.Result), kinds...)
}

func (k *toolCall) within(d time.Duration, kinds ...string) *message {
	m, err := k.await(d)
	if errors.Is(err, errNothing) {
		k.c.fail(k.what, fmt.Sprintf("nothing within %v", d), strings.Join(kinds, " or "))
	}
	k.c.must(err, "wait for "+strings.Join(kinds, " or "))
	k.check(m)
	for _, kind := range kinds {
		if m.kind == kind {
			return m
		}
	}
	k.c.fail(k.what, m, strings.Join(kinds, " or "))
	return nil
}

// await waits for the next message for up to d, the time that the profile allows, which does not
// count towards the limit of the case.
func (k *toolCall) await(d time.Duration) (*message, error) {
	defer k.c.waiting(d)()
	return k.line.next(k.c.ctx, d)
}

// check fails if a message is malformed or belongs to another call.
func (k *toolCall) check(m *message) {
	id := "id"
	if m.kind == "subscription_event" {
		id = "tool_call_id"
	}
	want, _ := k.body["call_id"].(string)
	switch {
	case m.wrong != "":
		k.c.fail(k.what, m, "a message as in doc/protocol.md §5")
	case m.text("group_id") != k.str("group_id"):
		k.c.fail(k.what, m, fmt.Sprintf("group_id %q", k.str("group_id")))
	case m.kind != "view_update" && m.text(id) != k.str("id"):
		k.c.fail(k.what, m, fmt.Sprintf("%s %q", id, k.str("id")))
	case id == "id" && m.kind != "view_update" && m.text("call_id") != want:
		k.c.fail(k.what, m, fmt.Sprintf("call_id %q", want))
	}
}

// result waits for the result of the call, which must be the next message.
func (k *toolCall) result() *message { return k.next("tool_result") }

// good waits for a result that is not an error and contains a text.
func (k *toolCall) good(text string) *message {
	m := k.result()
	if m.isError() || !strings.Contains(m.words(), text) {
		k.c.fail(k.what, m, fmt.Sprintf("a result with %q", text))
	}
	return m
}

// bad waits for a result that is an error.
func (k *toolCall) bad() *message {
	m := k.result()
	if !m.isError() {
		k.c.fail(k.what, m, `a result whose text begins with "Error: "`)
	}
	return m
}

// quiet fails if another message arrives. It waits as long as the profile says.
func (k *toolCall) quiet(expected string) {
	m, err := k.await(millis(k.c.limits.Quiet))
	if err == nil {
		k.c.fail(k.what, m, expected)
	}
	if !errors.Is(err, errNothing) {
		k.c.must(err, "wait")
	}
}

// quietAll is quiet for several calls together.
func (c *toolCase) quietAll(expected string, calls ...*toolCall) {
	end := time.Now().Add(millis(c.limits.Quiet))
	for _, k := range calls {
		m, err := k.await(time.Until(end))
		if err == nil {
			c.fail(k.what, m, expected)
		}
		if !errors.Is(err, errNothing) {
			c.must(err, "wait")
		}
	}
}

// alive makes a call that must succeed: whatever the case did, the server must continue. If no
// operation can be called, the manifest must be available.
func (c *toolCase) alive() {
	for _, role := range simple {
		if _, ok := c.profile.Roles[role]; ok {
			c.some(unique("alive")).start().worked()
			return
		}
	}
	got, err := c.manifest(c.ctx, c.base, "")
	c.must(err, "ask for the manifest")
	c.status("a request for the manifest afterwards", got, http.StatusOK)
}

// count calls the role count or peek and returns the number.
func (c *toolCase) count(role, name string) int {
	m := c.call(role, vars{"NAME": name}).start().result()
	n := -1
	if _, err := fmt.Sscan(m.words(), &n); err != nil {
		c.fail("a call of role "+role, m, "a number")
	}
	return n
}

// cancel posts a cancellation of the call.
func (k *toolCall) cancel() *reply {
	return k.c.post(k.c.base+cancelPath, fields{"thread_id": k.str("group_id"), "tool_call_id": k.str("id")})
}

// accepted fails unless a reply is 200. A non-empty body is only noted.
func (c *toolCase) accepted(sent string, got *reply) {
	c.status(sent, got, http.StatusOK)
	if strings.TrimSpace(got.body) != "" {
		c.tell(fmt.Sprintf("%s was answered with a body, which should be empty: %s", sent, clip(got.body, 100)))
	}
}

// status fails unless a reply has one of the statuses.
func (c *toolCase) status(sent string, got *reply, want ...int) {
	for _, s := range want {
		if got.status == s {
			return
		}
	}
	c.fail(sent, got, fmt.Sprintf("status %v", want))
}
