// Runs the npm package oidc-provider for TestOIDCProvider. It reads its settings from
// the standard input as JSON: where the package is, the key and certificate to serve
// with, and the client. It writes lines of JSON: first its issuer, then what happens
// at the token endpoint, with everything secret, so that the test can look for it.
import { createServer } from 'node:https';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

let input = '';
for await (const chunk of process.stdin) {
  input += chunk;
  if (input.includes('\n')) break;
}
const settings = JSON.parse(input);
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

const entry = join(settings.package, 'lib', 'index.js');
const { Provider } = await import(pathToFileURL(entry).href);

const server = createServer({ key: settings.key, cert: settings.cert });
server.listen(0, '127.0.0.1', () => {
  const issuer = `https://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [settings.client],
    scopes: ['openid', 'offline_access', 'read'],
    pkce: { required: () => true },
    rotateRefreshToken: true,
    ttl: { AccessToken: 5, AuthorizationCode: 60, IdToken: 60, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
    cookies: { keys: ['only for tests'] },
    features: { devInteractions: { enabled: true }, revocation: { enabled: true } },
  });
  const params = (ctx) => ctx.oidc?.params ?? {};
  provider.on('grant.success', (ctx) => say({ event: 'success', grant: params(ctx).grant_type, sent: params(ctx), answer: ctx.body }));
  provider.on('grant.error', (ctx, err) => say({ event: 'error', grant: params(ctx).grant_type, sent: params(ctx), error: err.error }));
  provider.on('grant.revoked', () => say({ event: 'revoked' }));
  server.on('request', provider.callback());
  say({ issuer });
});
