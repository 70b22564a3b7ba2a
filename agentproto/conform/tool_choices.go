package conform

import (
	"fmt"
	"net/url"
	"strings"
)

// question waits for the question of a call and returns it with its choices.
func (k *toolCall) question() (q *message, choices []string) {
	q = k.next("user_choice")
	for _, x := range q.m["choices"].([]any) {
		choices = append(choices, x.(string))
	}
	return q, choices
}

// pick answers a question.
func (k *toolCall) pick(q *message, selected any) *reply {
	return k.c.post(q.text("response_url"), fields{"id": k.str("id"), "selected": selected})
}

// U09: an invalid answer ends the call with an error.
func (c *toolCase) badSelections() {
	for _, bad := range []any{1_000_000, -1, "1", nil, 0.5, true} {
		k := c.call("choose", nil).start()
		q, _ := k.question()
		k.what = fmt.Sprintf("a choice answered with selected %v", bad)
		c.status(k.what, k.pick(q, bad), 200, 400, 422)
		k.bad()
	}
	k := c.call("choose", nil).start()
	q, choices := k.question()
	last := len(choices) - 1
	c.status("a choice that is one", k.pick(q, last), 200)
	k.good(choices[last])
}

// U10: only somebody who knows the response_url can answer.
func (c *toolCase) forgedAnswer() {
	k := c.call("choose", nil).start()
	q, choices := k.question()
	u, err := url.Parse(q.text("response_url"))
	if err != nil || !u.IsAbs() {
		c.fail("a question", q, "a response_url that is absolute")
	}
	body := fields{"id": k.str("id"), "selected": len(choices) - 1}
	for _, forge := range []func(*url.URL){
		func(u *url.URL) { u.Path = u.Path[:strings.LastIndex(u.Path, "/")+1]; u.RawQuery = "" },
		func(u *url.URL) { u.Path = u.Path[:strings.LastIndex(u.Path, "/")+1] + k.str("id"); u.RawQuery = "" },
		func(u *url.URL) {
			last := u.Path[len(u.Path)-1]
			u.Path, u.RawQuery = u.Path[:len(u.Path)-1]+string(rune('A'+(last+1)%26)), ""
		},
		func(u *url.URL) { u.Path += "x" },
	} {
		forged := *u
		forge(&forged)
		if forged.String() == u.String() {
			continue
		}
		c.status("an answer to "+clip(forged.Path, 20)+"…", c.post(forged.String(), body), 400, 403, 404, 405)
	}
	if m, err := k.line.next(c.ctx, soonest); err == nil {
		c.fail("forged answers", m, "the question stays open")
	}
	c.status("the answer", k.pick(q, 0), 200)
	k.good(choices[0])
	c.status("a second answer", k.pick(q, len(choices)-1), 200, 400, 404, 409, 410)
	k.quiet("one result")
}

// U11: a question does not stay open forever.
func (c *toolCase) noAnswer() {
	if c.limits.Choice == 0 {
		c.lacks("the profile does not say how long the server waits for a choice (limits.choice_ms)")
	}
	limit := millis(c.limits.Choice)
	k := c.call("choose", nil).start()
	q, _ := k.question()
	k.what = fmt.Sprintf("a question that nobody answers for %v", limit)
	m := k.within(limit+millis(c.limits.Result)/3, "tool_result")
	if !m.isError() {
		c.fail(k.what, m, "an error result")
	}
	if early := m.at.Sub(q.at); early < limit*9/10 {
		c.fail(k.what, "the result after "+early.String(), "the documented limit")
	}
	c.status("an answer that is late", k.pick(q, 0), 200, 400, 404, 410)
	k.quiet("one result")
}

// U12: a grant for one session does not apply to another.
func (c *toolCase) grants() {
	selected := c.role("grant").Select
	root, other := c.thread(), c.thread()
	ask := func(what, thread string, ancestors ...string) *toolCall {
		k := c.call("grant", nil).set(fields{"group_id": thread})
		if len(ancestors) > 0 {
			k.set(fields{"thread_ancestors": ancestors})
		}
		k.what = what
		return k.start()
	}
	k := ask("the first call of a session", root)
	q, _ := k.question()
	c.status("a grant for the session", k.pick(q, selected), 200)
	k.good("")
	ask("a call of the session with a grant", root).good("")
	ask("a call of a child of the session with a grant", c.thread(), root).good("")
	ask("a call of a grandchild", c.thread(), root, c.thread()).good("")
	for _, k := range []*toolCall{
		ask("a call of another session", other),
		ask("a call of a child of another session", c.thread(), other),
	} {
		k.question()
		k.cancel()
	}
}
