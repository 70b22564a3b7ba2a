package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// raw returns the call's message as altered bytes.
func (k *toolCall) raw(alter func(string) string) []byte {
	data, err := json.Marshal(k.body)
	k.c.must(err, "encode")
	return []byte(alter(string(data)))
}

// rejected sends altered invocations. Each must be answered 400, 413 or 422, and must get no
// result.
func (c *toolCase) rejected(alter map[string]func(string) string) {
	calls := make(map[string]*toolCall)
	for what, f := range alter {
		k := c.some("x")
		c.status("an invocation with "+what, c.post(c.endpoint, k.raw(f)), 400, 413, 422)
		calls[what] = k
	}
	c.alive()
	for what, k := range calls {
		if all := k.line.all(); len(all) > 0 {
			c.fail("an invocation with "+what, all[0], "400 and nothing else")
		}
	}
}

// prefixed returns a function that inserts members before the others.
func prefixed(members string) func(string) string {
	return func(s string) string { return "{" + members + "," + s[1:] }
}

// W01: duplicate members are refused, since two readers could read them differently.
func (c *toolCase) duplicateMember() {
	c.rejected(map[string]func(string) string{
		"id twice":           prefixed(`"id":"other"`),
		"callback_url twice": prefixed(`"callback_url":"http://127.0.0.1:1/"`),
		"id escaped, twice":  prefixed(`"\u0069d":"other"`),
		"arguments in which a member is twice": func(s string) string {
			return strings.Replace(s, `"arguments":{`, `"arguments":{"twice":1,"twice":2,`, 1)
		},
	})
}

// W02: names of members are case-sensitive.
func (c *toolCase) otherCase() {
	c.rejected(map[string]func(string) string{
		"Group_ID for group_id": func(s string) string { return strings.Replace(s, `"group_id"`, `"Group_ID"`, 1) },
		"ID for id":             func(s string) string { return strings.Replace(s, `"id"`, `"ID"`, 1) },
	})
	k := c.some("right")
	c.status("an invocation with Group_ID too", c.post(c.endpoint, k.raw(prefixed(`"Group_ID":"other","ID":"other"`))), http.StatusOK)
	k.worked()
}

// W03: text must be valid UTF-8.
func (c *toolCase) badText() {
	replace := func(with string) func(string) string {
		return func(s string) string { return strings.Replace(s, `"id":"`, `"id":"`+with, 1) }
	}
	c.rejected(map[string]func(string) string{
		"a byte that is no UTF-8":   replace("\xff"),
		"an overlong form":          replace("\xc0\xaf"),
		"a surrogate in UTF-8":      replace("\xed\xa0\x80"),
		"half a surrogate pair":     replace(`\ud800`),
		"the wrong half of a pair":  replace(`\udc00\ud800`),
		"a control character as is": replace("\x01"),
	})
}

// W04: nesting is limited.
func (c *toolCase) nested() {
	deep := func(n int) func(string) string {
		return prefixed(`"extra":` + strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	objects := func(n int) func(string) string {
		return prefixed(`"extra":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
	}
	c.rejected(map[string]func(string) string{
		"arrays nested 65 deep":      deep(65),
		"arrays nested 10,000 deep":  deep(10_000),
		"objects nested 10,000 deep": objects(10_000),
		"arrays that do not end":     prefixed(`"extra":` + strings.Repeat("[", 100_000)),
	})
	k := c.some("flat")
	c.status("an invocation nested 20 deep", c.post(c.endpoint, k.raw(deep(20))), http.StatusOK)
	k.worked()
}

// W05: a message is a single object and nothing else.
func (c *toolCase) trailing() {
	c.rejected(map[string]func(string) string{
		"something after it":    func(s string) string { return s + "x" },
		"another after it":      func(s string) string { return s + s },
		"an array around it":    func(s string) string { return "[" + s + "]" },
		"a byte order mark":     func(s string) string { return "\ufeff" + s },
		"a comment":             func(s string) string { return s + "// end" },
		"a comma at its end":    func(s string) string { return s[:len(s)-1] + ",}" },
		"null in place of it":   func(string) string { return "null" },
		"a string for the rest": func(string) string { return `"x"` },
	})
	k := c.some("blanks")
	c.status("an invocation with blanks around it", c.post(c.endpoint, k.raw(func(s string) string { return " \r\n\t" + s + "\n" })), http.StatusOK)
	k.worked()
}

// W06: unknown members, which a later version may add, are ignored.
func (c *toolCase) unknownMembers() {
	k := c.some("known").set(fields{
		"toolset_version": "3", "x-future": fields{"a": []int{1, 2}}, "thread_ancestors": nil, "user_id": nil, "": "empty",
	}).start()
	if m := k.worked(); bytes.Contains([]byte(m.raw), []byte("x-future")) {
		c.fail("an invocation with unknown members", m, "a result without them")
	}
	if !c.missing() {
		got := c.post(c.base+cancelPath, fields{"thread_id": "t", "tool_call_id": "i", "x-future": true})
		c.accepted("a cancellation with an unknown member", got)
	}
}

// W10: numbers of any size are accepted or refused, and do no harm.
func (c *toolCase) numbers() {
	for _, n := range []string{"2.0", "1e400", "-1e400", "9223372036854775808", "1e-400", "0.1e1", strings.Repeat("9", 5000), "-0"} {
		k := c.some("number")
		what := "an invocation with the number " + clip(n, 20)
		got := c.post(c.endpoint, k.raw(prefixed(`"extra":`+n)))
		if c.status(what, got, 200, 400, 422); got.status == http.StatusOK {
			k.worked()
		}
		k = c.some("number")
		got = c.post(c.endpoint, k.raw(func(s string) string { return strings.Replace(s, `"arguments":{`, `"arguments":{"n":`+n+`,`, 1) }))
		if c.status(what+" among its arguments", got, 200, 400, 422); got.status == http.StatusOK {
			k.result()
		}
	}
	if _, ok := c.profile.Roles["choose"]; ok {
		for _, n := range []string{"1.0", "1e0", "1e400", "9223372036854775808"} {
			k := c.call("choose", nil).start()
			q, choices := k.question()
			got := c.post(q.text("response_url"), []byte(fmt.Sprintf(`{"id":%q,"selected":%s}`, k.str("id"), n)))
			c.status("an answer with selected "+n, got, 200, 400, 422)
			m := k.result()
			if !m.isError() && (len(n) > 3 || !strings.Contains(m.words(), choices[1])) {
				c.fail("an answer with selected "+n, m, "the second choice or an error")
			}
		}
	}
	c.alive()
}

// W11: ids are data: they are not put unquoted into a header, a path or a log line.
func (c *toolCase) strangeIDs() {
	injected := "X-Injected-" + unique("id")
	ids := []string{
		"a\r\n" + injected + ": 1", "nul\x00nul", "../../" + injected, "a/b?c#d", "😀🏳️\u200d🌈", "\u202eright to left", strings.Repeat("k", 10_000), " ", "\x1b[31m",
	}
	for _, id := range ids {
		for _, member := range []string{"id", "group_id", "call_id"} {
			k := c.some("strange").set(fields{member: id})
			got := k.send()
			what := fmt.Sprintf("an invocation with %s %q", member, clip(id, 30))
			c.status(what, got, 200, 400, 422)
			if got.header.Get(injected) != "" {
				c.fail(what, got.header, "no header out of an id")
			}
			if got.status != http.StatusOK {
				continue
			}
			m := k.worked() // with the same id
			if m.header.Get(injected) != "" {
				c.fail(what, m.header, "no header out of an id")
			}
			k.cancel()
		}
	}
	c.alive()
	log := ""
	if c.proc != nil {
		log = c.proc.String()
	}
	if c.target.Output != nil {
		log += c.target.Output()
	}
	if strings.Contains(log, "\n"+injected) || strings.Contains(log, "\x1b[31m") {
		c.fail("ids with line ends and escape sequences", "they are in the log as they are", "ids that are quoted")
	}
}
