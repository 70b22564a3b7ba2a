package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The entries of a configuration as settings of flags.

// settings returns the flags of a tool server.
func (t *configTool) settings(at string) (all []setting, err error) {
	url := strings.TrimSuffix(t.URL, "/")
	switch {
	case t.URL == "" && t.Command == "":
		return nil, fmt.Errorf("%s has neither a url nor a command", at)
	case t.Command == "":
		all = append(all, setting{"tool", t.URL, at + "/url"})
	default:
		all = append(all, setting{"tool-command", strings.TrimSpace(t.URL + " " + t.Command), at + "/command"})
	}
	if t.URL == "" && (len(t.Headers) > 0 || t.Secret != configSecret{} || len(t.Origins) > 0) {
		return nil, fmt.Errorf("%s needs a url, at which its program listens, for headers, a secret and origins", at)
	}
	if all, err = placed(all, "tool-header", url+"|", t.Headers, at+"/headers/"); err != nil {
		return nil, err
	}
	place, err := t.Secret.place()
	if err != nil {
		return nil, fmt.Errorf("%s/secret %w", at, err)
	}
	if place != "" {
		all = append(all, setting{"secret", url + "=" + place, at + "/secret"})
	}
	for i, origin := range t.Origins {
		all = append(all, setting{"allow-origin", url + "=" + origin, fmt.Sprint(at, "/origins/", i)})
	}
	return all, nil
}

// settings returns the flags of an MCP server.
func (m configMCP) settings(name, at string) (all []setting, err error) {
	switch {
	case !mcpName.MatchString(name+"=x") || strings.ToUpper(name) == name:
		return nil, fmt.Errorf("%s: a name has 1 to 32 letters, digits, _ and -, and not capitals alone", at)
	case (len(m.Command) == 0) == (m.URL == ""):
		return nil, fmt.Errorf("%s has to have a command or a url, and one of them only", at)
	case m.URL != "" && len(m.Env) > 0:
		return nil, fmt.Errorf("%s/env is for a command", at)
	case m.URL == "" && len(m.Headers) > 0:
		return nil, fmt.Errorf("%s/headers are for a url", at)
	case m.URL != "" && m.Idle != "":
		return nil, fmt.Errorf("%s/idle is for a command", at)
	case m.URL != "" && m.PerUser:
		return nil, fmt.Errorf("%s/per_user is for a command", at)
	case m.MaxUsers != nil && !m.PerUser:
		return nil, fmt.Errorf("%s/max_users needs per_user", at)
	case m.URL == "" && m.Client != configClient{}:
		return nil, fmt.Errorf("%s/client is for a url", at)
	case (m.Client.ID == "" || m.Client.Issuer == "") && m.Client != configClient{}:
		return nil, fmt.Errorf("%s/client has to have an id and an issuer", at)
	}
	if all, err = placed(all, "mcp-header", name+"=", m.Headers, at+"/headers/"); err != nil {
		return nil, err
	}
	env, err := placed(nil, "", "", m.Env, at+"/env/")
	if err != nil {
		return nil, err
	}
	text := m.URL
	if text == "" {
		var words []string
		for _, v := range env {
			words = append(words, quoted(v.text))
		}
		for _, w := range m.Command {
			words = append(words, quoted(w))
		}
		text = strings.Join(words, " ")
	}
	all = append(all, setting{"mcp", name + "=" + text, at})
	for _, tool := range slices.Sorted(maps.Keys(m.Repeat)) {
		all = append(all, setting{"mcp-repeat", name + "=" + tool + "=" + m.Repeat[tool], at + "/repeat/" + tool})
	}
	if m.Pin {
		all = append(all, setting{"mcp-pin", name, at + "/pin"})
	}
	if m.Idle != "" {
		if _, err := idleOf(m.Idle); err != nil {
			return nil, fmt.Errorf("%s/idle: %w", at, err)
		}
		all = append(all, setting{"mcp-idle", name + "=" + m.Idle, at + "/idle"})
	}
	switch {
	case m.MaxUsers != nil:
		if *m.MaxUsers <= 0 {
			return nil, fmt.Errorf("%s/max_users has to be 1 or more", at)
		}
		all = append(all, setting{"mcp-per-user", name + "=" + strconv.Itoa(*m.MaxUsers), at + "/max_users"})
	case m.PerUser:
		all = append(all, setting{"mcp-per-user", name, at + "/per_user"})
	}
	place, err := m.Client.Secret.place()
	if err != nil {
		return nil, fmt.Errorf("%s/client/secret %w", at, err)
	}
	if m.Client.ID != "" {
		all = append(all, setting{"mcp-client", name + "=" + m.Client.ID + "=" + m.Client.Issuer, at + "/client"})
	}
	if place != "" {
		all = append(all, setting{"mcp-client-secret", name + "=" + place, at + "/client/secret"})
	}
	return all, nil
}

// settings returns the flags of a model.
func (m configModel) settings(at string) (all []setting, err error) {
	switch {
	case !namedFlag.MatchString(m.Name + "="):
		return nil, fmt.Errorf("%s/name: a name has 1 to 64 letters, digits, and . _ - behind the first one", at)
	case (m.OpenAI == "") == (m.Script == ""):
		return nil, fmt.Errorf("%s has to have openai or script, and one of them only", at)
	}
	key, err := m.Key.place()
	if err != nil {
		return nil, fmt.Errorf("%s/key %w", at, err)
	}
	text := "openai:" + m.OpenAI
	if m.Script != "" {
		text = "script:" + m.Script
	}
	for _, s := range []setting{
		{"model", text, at}, {"model-name", m.Model, at + "/model"}, {"model-key", key, at + "/key"},
		{"model-fallback", strings.Join(m.Fallback, ","), at + "/fallback"}, {"model-context", m.Context, at + "/context"},
	} {
		if s.text != "" {
			all = append(all, setting{s.flag, m.Name + "=" + s.text, s.at})
		}
	}
	return all, nil
}

// placed adds the flags for secrets by name: NAME=@PLACE after a prefix.
func placed(all []setting, flag, prefix string, secrets map[string]configSecret, at string) ([]setting, error) {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		place, err := secrets[name].place()
		if err == nil && place == "" {
			err = errors.New("has neither a file nor an env")
		}
		if err != nil {
			return nil, fmt.Errorf("%s%s %w", at, name, err)
		}
		all = append(all, setting{flag, prefix + name + "=@" + place, at + name})
	}
	return all, nil
}

// quoted quotes a word for a command.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
