package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/conversation/openai"
)

// keyEnv is the environment variable with the key for models that have no other one. It is not a flag, because every user of a
// machine can read the flags of a process.
const keyEnv = "OPENAI_API_KEY"

// onlyModel is the name of a model that was given none.
const onlyModel = "default"

// contextOf is the default limit for the messages that a model is shown, in bytes: some 100,000 tokens.
const contextOf = 384 << 10

// modelFlags are the models that answer in conversations. Each of the flags may begin with the name of a model and =.
type modelFlags struct{ models, names, keys, fallbacks, contexts urls }

func (f *modelFlags) add(fs *flag.FlagSet) {
	fs.Var(&f.models, "model", "who answers in conversations: `[NAME=]script:FILE`, a JSON array of replies, or [NAME=]openai:URL, an API like OpenAI's; may be given more than once with names, of which a session can choose one: the first is the default")
	fs.Var(&f.names, "model-name", "`[MODEL=]NAME`: which model of that API answers; its key is "+keyEnv+" of the environment")
	fs.Var(&f.keys, "model-key", "`[MODEL=]FILE` with the key of that API, or env:NAME for another variable of the environment")
	fs.Var(&f.fallbacks, "model-fallback", "`MODEL=NAME,NAME`: the models that are asked in its place, one after the other, while it cannot be reached, fails or has no quota left")
	fs.Var(&f.contexts, "model-context", "`[MODEL=]BYTES` of messages that a model is shown, 384KiB unless given, which is some 100,000 tokens; of more, the first ones are summarized. At least 16KiB, or 0 for no bound")
}

// A modelSpec combines the flags of one model.
type modelSpec struct {
	name, kind, at, model, key string
	fallback                   []string
	context                    int
}

// namedFlag matches a flag that names one of several models.
var namedFlag = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.*)$`)

// specs combines the flags of each model. It reads no files.
func (f *modelFlags) specs() (all []modelSpec, err error) {
	for _, text := range f.models {
		if text == "" {
			continue
		}
		s := modelSpec{name: onlyModel, at: text}
		if m := namedFlag.FindStringSubmatch(text); m != nil {
			s.name, s.at = m[1], m[2]
		}
		var kind bool
		s.kind, s.at, kind = strings.Cut(s.at, ":")
		if !kind && s.kind != "openai" || s.kind != "openai" && s.kind != "script" || s.kind == "script" && s.at == "" {
			return nil, fmt.Errorf("--model is %q: it has to be script:FILE or openai:URL, with a name and = in front if there are several", text)
		}
		if u, err := url.Parse(s.at); s.kind == "openai" && (err != nil || s.at != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "")) {
			return nil, fmt.Errorf("--model is %q: behind openai: there has to be a URL such as https://api.openai.com/v1", text)
		}
		if s.kind == "openai" {
			s.context = contextOf
		}
		all = append(all, s)
	}
	for _, of := range []struct {
		flag  string
		texts urls
		set   func(s *modelSpec, value string) error
	}{
		{"model-name", f.names, func(s *modelSpec, value string) error { s.model = value; return nil }},
		{"model-key", f.keys, func(s *modelSpec, value string) error { s.key = value; return nil }},
		{"model-fallback", f.fallbacks, func(s *modelSpec, value string) error { s.fallback = strings.Split(value, ","); return nil }},
		{"model-context", f.contexts, func(s *modelSpec, value string) error {
			n, err := bytesOf(value)
			if err == nil && n != 0 && (n < 16<<10 || n > mostSize) {
				err = errors.New("it has to be 0, or from 16KiB to 64MiB")
			}
			s.context = int(n)
			return err
		}},
	} {
		for _, text := range of.texts {
			s, value := modelIn(all, text)
			if s == nil {
				return nil, fmt.Errorf("--%s %s: it has to begin with the name of a --model and =", of.flag, text)
			}
			if err := of.set(s, value); err != nil {
				return nil, fmt.Errorf("--%s %s: %w", of.flag, text, err)
			}
		}
	}
	for _, s := range all {
		if s.kind == "openai" && s.model == "" {
			return nil, fmt.Errorf("which model is to answer? --model openai needs --model-name, and %q has none", s.name)
		}
	}
	return all, nil
}

// modelIn returns the model that a flag is about, and the rest of the flag. It is the named model or, if there is only one model,
// that one.
func modelIn(all []modelSpec, text string) (*modelSpec, string) {
	if m := namedFlag.FindStringSubmatch(text); m != nil {
		for i := range all {
			if all[i].name == m[1] {
				return &all[i], m[2]
			}
		}
	}
	if len(all) == 1 {
		return &all[0], text
	}
	return nil, ""
}

// open returns the models, or nil if there are none. It reads their keys and scripts.
func (f *modelFlags) open() (conversation.Model, error) {
	specs, err := f.specs()
	if err != nil || len(specs) == 0 {
		return nil, err
	}
	var all []conversation.NamedModel
	for _, s := range specs {
		m := conversation.NamedModel{Name: s.name, Fallback: s.fallback, Context: s.context}
		if s.kind == "script" {
			if m.Model, err = scriptOf(s.at); err != nil {
				return nil, err
			}
		} else {
			secret := os.Getenv(keyEnv)
			if s.key != "" {
				if secret, err = secretAt(s.key); err != nil {
					return nil, fmt.Errorf("--model-key of %q: %w", s.name, err)
				}
			}
			m.Model = openai.New(openai.Options{Name: s.model, BaseURL: s.at, Key: secret})
		}
		all = append(all, m)
	}
	return conversation.NewModels(all...)
}
