// The client of the language server `tfdeploy lsp`.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function makeClient() {
  const settings = vscode.workspace.getConfiguration("tfdeploy");
  const server = {
    command: settings.get("command"),
    args: settings.get("arguments"),
    transport: TransportKind.stdio,
  };
  return new LanguageClient("tfdeploy", "tfdeploy", server, {
    documentSelector: [
      { scheme: "file", language: "tfdeploy" },
      { scheme: "untitled", language: "tfdeploy" },
    ],
  });
}

async function start() {
  client = makeClient();
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `The language server could not be started: ${error.message}. ` +
        "Install tfdeploy, or set tfdeploy.command to the program."
    );
  }
}

async function stop() {
  if (client && client.needsStop()) {
    await client.stop();
  }
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("tfdeploy.restart", async () => {
      await stop();
      await start();
    }),
    vscode.commands.registerCommand("tfdeploy.showLog", () => client && client.outputChannel.show())
  );
  await start();
}

module.exports = { activate, deactivate: stop };
