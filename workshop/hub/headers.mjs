// Loaded before JupyterHub's proxy: removes the headers by which a client could claim to come from
// another address. Of a reverse proxy in `?trusted=ADDRESS,...` those that the hub reads are kept.
// Connections to sockets are kept open, as those to ports are: one that the hub closes right after an
// answer would sometimes be taken for a hub that is down.
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { pathToFileURL } from "node:url";

const FOREIGN = /^(forwarded|x-forwarded(-.*)?|x-real-.*|x-scheme|x-original-.*|.*client-ip)$/;
const READ_BY_THE_HUB = /^x-forwarded-(for|proto|host|port)$/;

const trusted = new net.BlockList();
for (const address of new URL(import.meta.url).searchParams.get("trusted").split(",")) {
  if (net.isIP(address)) trusted.addAddress(address, `ipv${net.isIP(address)}`);
}

const isTrusted = (address) =>
  net.isIP(address ?? "") !== 0 && trusted.check(address, `ipv${net.isIP(address)}`);

const program = path.dirname(fs.realpathSync(process.argv[1]));
const { ConfigurableProxy } = await import(pathToFileURL(path.join(program, "../lib/configproxy.js")));

const handleProxy = ConfigurableProxy.prototype.handleProxy;
ConfigurableProxy.prototype.handleProxy = function (kind, request, ...rest) {
  const keeps = isTrusted(request.socket.remoteAddress);
  for (const name of Object.keys(request.headers)) {
    if (FOREIGN.test(name) && !(keeps && READ_BY_THE_HUB.test(name))) delete request.headers[name];
  }
  return handleProxy.call(this, kind, request, ...rest);
};

const proxyOptsForTarget = ConfigurableProxy.prototype.proxyOptsForTarget;
ConfigurableProxy.prototype.proxyOptsForTarget = function (target) {
  return { agent: this.httpAgent, ...proxyOptsForTarget.call(this, target) };
};
