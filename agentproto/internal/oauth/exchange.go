package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// A transitText is the vault's entry for a code: first the code, then a mark that it was sent to
// the provider, then the token. So a code is sent only once, whatever happens to the process, and a
// token that the provider has issued is not lost once it has arrived.
type transitText struct {
	Code   string       `json:",omitempty"`
	Sent   bool         `json:",omitempty"`
	Token  *vault.Token `json:",omitempty"`
	Scopes []string     `json:",omitempty"`
}

func (t transitText) encode() []byte {
	text, _ := json.Marshal(t)
	return text
}

// exchange turns the code of a redirect into a token of the user who was asked. It sends a code at
// most once.
func (c *Client) exchange(ctx context.Context, p *Provider, key vault.Key, j authorize.Job) (*vault.Token, authorize.Class) {
	text, err := c.o.Transit.Get(j.Code)
	var e transitText
	if err == nil && text != nil {
		err = json.Unmarshal(text, &e)
	}
	switch {
	case err != nil:
		c.o.Log.Error("code cannot be read", "provider", p.ID, "error", err)
		return nil, authorize.Failed
	case e.Token != nil:
		e.Token.Scopes = e.Scopes
		return e.Token, c.save(ctx, key, e.Token)
	case e.Code == "":
		return nil, authorize.Lost
	case j.Print != c.print(p):
		return nil, authorize.Failed
	}
	if err := c.o.Transit.Put(j.Code, transitText{Sent: true}.encode()); err != nil {
		c.o.Log.Error("code not used up", "provider", p.ID, "error", err)
		return nil, authorize.Failed
	}
	issued, err := p.config.Exchange(ctx, e.Code, oauth2.VerifierOption(c.derived(j.ID, forVerifier)))
	if err != nil {
		c.logProvider("code not exchanged", p, err)
		if isUnknownClient(err) {
			return nil, authorize.Unknown
		}
		return nil, authorize.Failed
	}
	c.o.Guard.AddOnce(leak.Owner(key), e.Code) // the provider has accepted it as a code
	t, class := c.accept(p, key, issued, j.Scopes)
	if class == authorize.Good {
		class = c.identify(ctx, p, key, j.ID, issued)
	}
	if class != authorize.Good {
		return nil, class
	}
	if p.Confirm {
		c.unconfirmed.put(j.ID, t)
		return nil, authorize.Unconfirmed
	}
	if err := c.o.Transit.Put(j.Code, transitText{Token: t, Scopes: t.Scopes}.encode()); err != nil {
		c.o.Log.Error("token not kept in transit", "provider", p.ID, "error", err)
	}
	return t, c.save(ctx, key, t)
}

// discard deletes a code, and an unconfirmed token.
func (c *Client) discard(ctx context.Context, p *Provider, j authorize.Job) {
	if j.Code != "" {
		if err := c.o.Transit.Delete(j.Code); err != nil {
			c.o.Log.Error("code not deleted", "error", err)
		}
	}
	if u := c.unconfirmed.take(j.ID); u != nil && p != nil {
		c.revoke(ctx, p, u.token)
	}
}

// giveBack revokes the token of a closed session, and deletes it.
func (c *Client) giveBack(ctx context.Context, p *Provider, key vault.Key) {
	if t, class := c.Load(ctx, key); class == authorize.Good {
		if p != nil {
			c.revoke(ctx, p, t)
		}
		c.forget(context.WithoutCancel(ctx), key)
	}
}

// revoke revokes a token at the provider (RFC 7009), if the provider supports that. Revoking the
// refresh token covers everything that was issued for it. A token that cannot be revoked expires.
func (c *Client) revoke(ctx context.Context, p *Provider, t *vault.Token) {
	if p.RevokeURL == "" {
		return
	}
	form := url.Values{"token": {t.Access}, "token_type_hint": {"access_token"}}
	if t.Refresh != "" {
		form = url.Values{"token": {t.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	inHeader := p.config.Endpoint.AuthStyle == oauth2.AuthStyleInHeader
	if !inHeader {
		form.Set("client_id", p.ClientID)
		if p.ClientSecret != "" {
			form.Set("client_secret", p.ClientSecret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.RevokeURL, strings.NewReader(form.Encode()))
	if err != nil {
		return // checked by Add
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if inHeader {
		req.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(p.ClientSecret))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.logProvider("token not revoked", p, err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		c.o.Log.Warn("token not revoked", "provider", p.ID, "status", resp.StatusCode)
	}
}

// providerErrors are the error codes of RFC 6749, which may be logged. Other codes, and all
// descriptions, are a provider's own text, and some providers repeat the code in it.
var providerErrors = map[string]bool{
	"invalid_request": true, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true,
	"unsupported_grant_type": true, "invalid_scope": true, "access_denied": true, "unsupported_response_type": true,
	"server_error": true, "temporarily_unavailable": true,
}

// logProvider logs a failed request to a provider.
func (c *Client) logProvider(what string, p *Provider, err error) {
	attrs := []any{"provider", p.ID}
	var re *oauth2.RetrieveError
	switch {
	case errors.As(err, &re):
		if re.Response != nil {
			attrs = append(attrs, "status", re.Response.StatusCode)
		}
		if providerErrors[re.ErrorCode] {
			attrs = append(attrs, "error", re.ErrorCode)
		}
	case errors.Is(err, context.DeadlineExceeded):
		attrs = append(attrs, "error", "timeout")
	default:
		attrs = append(attrs, "error", "no usable answer")
	}
	c.o.Log.Warn(what, attrs...)
}
