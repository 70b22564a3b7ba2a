package form_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/form"
)

// all is a form with a field of each kind.
const all = `{"questions":[{"name":"who","message":"Who?","schema":{"type":"object","properties":{` +
	`"name":{"type":"string","title":"Your name","minLength":2,"maxLength":5},"mail":{"type":"string","format":"email"},"age":{"type":"integer","minimum":0,"default":30},` +
	`"score":{"type":"number"},"sure":{"type":"boolean"},"size":{"type":"string","enum":["s","m"],"default":"m"},"old":{"type":"string","enum":["a","b"],"enumNames":["A","B"]},` +
	`"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"b","title":"Blue"}]},"some":{"type":"array","items":{"type":"string","enum":["x","y","z"]},"maxItems":2},` +
	`"more":{"type":"array","items":{"anyOf":[{"const":"1","title":"One"}]}}},"required":["name"]}},{"name":"agreed","message":"Agreed?","schema":{"type":"object","properties":{}}}]}`

func parsed(t *testing.T, text string) *form.Form {
	t.Helper()
	f, err := form.Parse(jsontext.Value(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestParse checks that a form is encoded as it was parsed, and that invisible characters are
// removed.
func TestParse(t *testing.T) {
	got, err := parsed(t, all).Encode()
	if err != nil || jsonOf(t, got) != jsonOf(t, jsontext.Value(all)) {
		t.Errorf("written as\n%s, want\n%s, %v", got, all, err)
	}
	hidden := parsed(t, `{"questions":[{"name":"q","message":"a\u202Eb","schema":{"type":"object","properties":{"x":{"type":"boolean","title":"c\u200Bd"}},"more":1}}],"more":2}`)
	if q := hidden.Questions[0]; q.Message != "ab" || q.Fields[0].Title != "cd" {
		t.Errorf("what cannot be seen is left: %+v", q)
	}
}

// jsonOf returns JSON in canonical form.
func jsonOf(t *testing.T, v jsontext.Value) string {
	t.Helper()
	v = v.Clone()
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

// TestRefused checks that forms that nobody can or should fill in are refused.
func TestRefused(t *testing.T) {
	of := func(properties string) string {
		return `{"questions":[{"name":"q","message":"?","schema":{"type":"object","properties":{` + properties + `}}}]}`
	}
	many := func(n int, format string) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(format, i))
		}
		return strings.Join(parts, ",")
	}
	for _, c := range []struct{ form, why string }{
		{`[]`, "no JSON object"},
		{`{"questions":3}`, "no JSON object"},
		{`{}`, "1 to 16 questions"},
		{`{"questions":[{"name":"a b","schema":{"type":"object"}}]}`, "no name"},
		{`{"questions":[{"name":"a","schema":{"type":"object"}},{"name":"a","schema":{"type":"object"}}]}`, "two questions"},
		{`{"questions":[{"name":"a","schema":{"type":"array"}}]}`, "not that of an object"},
		{`{"questions":[{"name":"a","schema":{"type":"object","required":["x"]}}]}`, "required and not described"},
		{`{"questions":[` + many(17, `{"name":"n%d","schema":{"type":"object"}}`) + `]}`, "1 to 16 questions"},
		{of(many(65, `"f%d":{"type":"boolean"}`)), "64 fields"},
		{of(`"x":{"type":"object","properties":{"y":{"type":"string"}}}`), "an object or array"},
		{of(`"x":{"type":"array","items":{"type":"object"}}`), "an object or array"},
		{of(`"x":{"type":"null"}`), "no type"},
		{of(`"x":{"type":["string","null"]}`), "not described"},
		{of(`"x":{"$ref":"#"}`), "no type"},
		{of(`"x":{"type":"string","enum":[1,2]}`), "not described"},
		{of(`"x":{"type":"string","enum":[]}`), "1 to 256 options"},
		{of(`"x":{"type":"string","enum":["a","a"]}`), "two options"},
		{of(`"x":{"type":"string","oneOf":[{"const":"1","title":"Yes"},{"const":"2","title":"Yes\u200B"}]}`), "two options"},
		{of(`"x":{"type":"string","minLength":5,"maxLength":4}`), "leave nothing"},
		{of(`"x":{"type":"string","minLength":-1}`), "leave nothing"},
		{of(`"x":{"type":"integer","default":"3"}`), "its default"},
		{of(`"password":{"type":"string"}`), "secret"},
		{of(`"x":{"type":"string","title":"API key"}`), "secret"},
		{of(`"x\u200B":{"type":"string"}`), "no name of a field"},
		{of(`"x":{"type":"string"},"x":{"type":"string"}`), ""},
		{of(`"x":{"type":"string","description":"` + strings.Repeat("d", 5000) + `"}`), "too long"},
		{`{"questions":[],"more":"` + strings.Repeat("x", form.MaxBytes) + `"}`, "more than"},
	} {
		if _, err := form.Parse(jsontext.Value(c.form)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%.120s: %v, want %q", c.form, err, c.why)
		}
	}
}

// TestCheck checks valid and invalid values against a form.
func TestCheck(t *testing.T) {
	f := parsed(t, all)
	for _, c := range []struct{ values, wrong string }{
		{`{}`, ""},
		{`{"who":null}`, ""},
		{`{"agreed":{}}`, ""},
		{`{"who":{"name":"Ada"}}`, ""},
		{`{"who":{"name":"Ada","mail":"ada@example.com","age":7.0,"score":1.5,"sure":false,"size":"s","old":"a","colour":"b","some":["z","x"],"more":[]}}`, ""},
		{`{"who":{"name":"Ada","age":null}}`, ""},
		{`{"who":{}}`, `"name" of "who" is missing`},
		{`{"who":{"name":null}}`, "is missing"},
		{`{"who":{"name":"A"}}`, "at least 2 characters"},
		{`{"who":{"name":"öööööö"}}`, "at most 5 characters"},
		{`{"who":{"name":"ööööö"}}`, ""},
		{`{"who":{"name":3}}`, "has to be a text"},
		{`{"who":{"name":"Ada","extra":1}}`, `"extra" of "who" was not asked for`},
		{`{"who":{"name":"Ada","mail":"Ada <a@b.example>"}}`, "e-mail"},
		{`{"who":{"name":"Ada","age":-1}}`, "at least 0"},
		{`{"who":{"name":"Ada","age":1.5}}`, "whole number"},
		{`{"who":{"name":"Ada","age":"7"}}`, "has to be a number"},
		{`{"who":{"name":"Ada","score":1e999}}`, "has to be a number"},
		{`{"who":{"name":"Ada","sure":"true"}}`, "true or false"},
		{`{"who":{"name":"Ada","size":"l"}}`, "one of the options"},
		{`{"who":{"name":"Ada","colour":"Red"}}`, "one of the options"},
		{`{"who":{"name":"Ada","some":"x"}}`, "list of options"},
		{`{"who":{"name":"Ada","some":["x","x"]}}`, "each once"},
		{`{"who":{"name":"Ada","some":["x","y","z"]}}`, "at most 2 options"},
		{`{"who":[]}`, "is no object"},
		{`{"who":{"name":"Ada","name":"Bob"}}`, ""}, // Values refuses it
		{`{"other":{}}`, "was not asked for"},
	} {
		values, err := form.Values(jsontext.Value(c.values))
		if strings.Count(c.values, `"name":"`) > 1 {
			if err == nil {
				t.Errorf("%s: two members of one name are taken", c.values)
			}
			continue
		}
		if err == nil {
			err = f.Check(values)
		}
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, want %q", c.values, err, c.wrong)
		}
	}
	for _, v := range []string{`[]`, `"x"`, `{"a":`, `{"a":"` + strings.Repeat("x", form.MaxBytes) + `"}`} {
		if _, err := form.Values(jsontext.Value(v)); err == nil {
			t.Errorf("%.20s is taken", v)
		}
	}
}

// TestDefaults checks that a form has defaults only if each required field has one.
func TestDefaults(t *testing.T) {
	if _, ok := parsed(t, all).Defaults(); ok {
		t.Error("a required field without a default has one")
	}
	f := parsed(t, `{"questions":[{"name":"q","message":"","schema":{"type":"object","properties":{"a":{"type":"string","default":"x"},"b":{"type":"boolean"}},"required":["a"]}}]}`)
	if d, ok := f.Defaults(); !ok || string(d["q"]) != `{"a":"x"}` || f.Check(d) != nil {
		t.Errorf("defaults %s", d)
	}
}

// TestFilling fills in a form line by line, with mistakes.
func TestFilling(t *testing.T) {
	f := parsed(t, all)
	l := form.NewFilling(f)
	done := false
	for _, line := range []string{"", "A", "Ada", "", "x", "", "1.5", "maybe", "yes", "3", "1", "", "", "1, 3", "9", ""} {
		if done {
			t.Fatal("it is filled in too soon")
		}
		if l.Ask() == "" {
			t.Fatal("nothing is asked")
		}
		done, _ = l.Enter(line)
	}
	if done {
		t.Fatal("the second question was not asked")
	}
	if done, err := l.Enter(form.DeclineLine); !done || err != nil || l.Ask() != "" {
		t.Errorf("declined: %v, %v", done, err)
	}
	want := `{"agreed":null,"who":{"age":30,"name":"Ada","score":1.5,"size":"s","some":["x","z"],"sure":true}}`
	if got, err := form.Filled(l.Values()); string(got) != want || err != nil {
		t.Errorf("filled in %s, want %s", got, want)
	}
	if err := f.Check(l.Values()); err != nil {
		t.Error(err)
	}
}

// FuzzParse parses forms of strangers. A form that is accepted and encoded parses again as the
// same form.
func FuzzParse(f *testing.F) {
	f.Add([]byte(all), []byte(`{"who":{"name":"Ada"}}`))
	f.Fuzz(func(t *testing.T, data, answer []byte) {
		parsed, err := form.Parse(data)
		if err != nil {
			return
		}
		encoded, err := parsed.Encode()
		if err != nil {
			return // longer than it was
		}
		again, err := form.Parse(encoded)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(twice, encoded) {
			t.Fatalf("%s became %s", encoded, twice)
		}
		if values, err := form.Values(answer); err == nil {
			_ = parsed.Check(values)
		}
		if d, ok := parsed.Defaults(); ok && parsed.Check(d) != nil {
			t.Fatalf("the defaults %s do not fit", d)
		}
	})
}

// TestEmptyOption chooses an option whose value is empty.
func TestEmptyOption(t *testing.T) {
	for _, required := range []bool{true, false} {
		f := &form.Field{Name: "f", Kind: form.Choice, Required: required, Options: []form.Option{{Value: "a"}, {Value: "", Title: "None of them"}}}
		if v, err := f.Entered("2"); err != nil || string(v) != `""` {
			t.Errorf("required %v: %q, %v", required, v, err)
		}
	}
}
