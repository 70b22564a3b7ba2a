package idp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/millrace/millrace/internal/edge"
)

// recorded is an answer of the library that is not sent yet.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// record passes a request to the library and returns its answer.
func (p *Provider) record(r *http.Request) *recorded {
	rec := &recorded{header: http.Header{}, status: http.StatusOK}
	p.op.ServeHTTP(rec, r)
	return rec
}

func (rec *recorded) Header() http.Header         { return rec.header }
func (rec *recorded) WriteHeader(status int)      { rec.status = status }
func (rec *recorded) Write(b []byte) (int, error) { return rec.body.Write(b) }

func (rec *recorded) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), rec.header)
	w.WriteHeader(rec.status)
	rec.body.WriteTo(w)
}

// serveAuthorize serves the library's authorization endpoint.
func (p *Provider) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	p.sendWithIssuer(w, r)
}

// serveCallback serves the target of the consent form. Only the browser that
// consented gets the code, even if others know the request.
func (p *Provider) serveCallback(w http.ResponseWriter, r *http.Request) {
	req, err := p.store.request(r.URL.Query().Get("id"))
	if err != nil || req.session == "" || req.session != p.session(r) {
		p.pages.fail(w, errNoRequest)
		return
	}
	p.sendWithIssuer(w, r)
}

// sendWithIssuer adds the iss parameter of RFC 9207 to a redirect back to the
// client, which the library leaves out. A client of several providers uses it to
// tell whose answer it received.
func (p *Provider) sendWithIssuer(w http.ResponseWriter, r *http.Request) {
	rec := p.record(r)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	to, err := url.Parse(rec.header.Get("Location"))
	if err != nil || to.Host == "" || to.Scheme+"://"+to.Host == p.issuer {
		rec.send(w)
		return
	}
	// The library's body repeats the address without iss.
	w.Header().Set("Location", p.withIssuer(to).String())
	w.WriteHeader(http.StatusFound)
}

func (p *Provider) withIssuer(to *url.URL) *url.URL {
	if iss := p.knobs.responseIssuer(); iss != "" {
		q := to.Query()
		q.Set("iss", iss)
		to.RawQuery = q.Encode()
	}
	return to
}

// serveToken serves the library's token endpoint, and applies the knobs.
func (p *Provider) serveToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	form, err := edge.ReadForm(w, r)
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", "the body is not a form")
		return
	}
	r.Form, r.PostForm = form, form // otherwise the library would read the query as well
	p.remember(r.Form.Get("code"), r.Form.Get("code_verifier"), r.Form.Get("refresh_token"))
	if hold := p.knobs.countGrant(r.Form.Get("grant_type")); !hold.wait(r.Context()) {
		return
	}
	if status, fail := p.knobs.takeFailure(); fail {
		failToken(w, status, r.Form)
		return
	}
	rec := p.record(r)
	var issued struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		ID      string `json:"id_token"`
	}
	if json.Unmarshal(rec.body.Bytes(), &issued) == nil {
		p.remember(issued.Access, issued.Refresh, issued.ID)
	}
	rec.send(w)
}

// failToken answers for [Provider.FailTokenEndpoint].
func failToken(w http.ResponseWriter, status int, form url.Values) {
	if status < http.StatusBadRequest {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintln(w, "<!doctype html><title>Welcome</title><p>Please accept the terms of this network.</p>")
		return
	}
	code := "invalid_grant"
	switch {
	case status == http.StatusUnauthorized:
		code = "invalid_client"
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		code = "temporarily_unavailable"
	case status >= http.StatusInternalServerError:
		code = "server_error"
	}
	writeError(w, status, code, fmt.Sprintf("could not handle %s%s with verifier %q",
		form.Get("code"), form.Get("refresh_token"), form.Get("code_verifier")))
}

func writeError(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, map[string]string{"error": code, "error_description": description})
}

// writeJSON sends a value whose encoding cannot fail.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// serveUserInfo says for whom the bearer of an access token speaks. It replaces
// the library's endpoint, which answers 403 where RFC 6750 requires 401 and
// accepts tokens in the query.
func (p *Provider) serveUserInfo(w http.ResponseWriter, r *http.Request) {
	p.knobs.countUserInfo()
	w.Header().Set("Cache-Control", "no-store")
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
		writeError(w, http.StatusUnauthorized, "invalid_request", "an access token is required")
		return
	}
	info := new(oidc.UserInfo)
	inner, err := p.op.Crypto().Decrypt(token)
	if err == nil {
		// The library makes tokens of the form id:subject and encrypts them.
		id, _, _ := strings.Cut(inner, ":")
		err = p.store.SetUserinfoFromToken(r.Context(), info, id, "", "")
	}
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer realm="millrace", error="invalid_token"`)
		writeError(w, http.StatusUnauthorized, "invalid_token", errToken.Error())
		return
	}
	writeJSON(w, http.StatusOK, info)
}

// serveMetadata describes the provider. The library's own description names
// endpoints and flows that are not served, and cannot express RFC 9207.
func (p *Provider) serveMetadata(w http.ResponseWriter, r *http.Request) {
	ctx := op.ContextWithIssuer(r.Context(), p.issuer)
	d := op.CreateDiscoveryConfig(ctx, p.op, p.store)
	if p.store.options.Registration {
		d.RegistrationEndpoint = p.issuer + pathRegister
	}
	d.IntrospectionEndpoint = ""
	d.IntrospectionEndpointAuthMethodsSupported = nil
	d.IntrospectionEndpointAuthSigningAlgValuesSupported = nil
	d.RevocationEndpointAuthSigningAlgValuesSupported = nil
	d.EndSessionEndpoint = ""
	d.DeviceAuthorizationEndpoint = ""
	d.ResponseTypesSupported = []string{string(oidc.ResponseTypeCode)}
	d.ResponseModesSupported = []string{string(oidc.ResponseModeQuery)}
	d.GrantTypesSupported = []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken}
	writeJSON(w, http.StatusOK, struct {
		*oidc.DiscoveryConfiguration
		NamesIssuer bool `json:"authorization_response_iss_parameter_supported,omitempty"`
	}{d, !p.store.options.SilentIssuer})
}
