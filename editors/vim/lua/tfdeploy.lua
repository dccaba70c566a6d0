-- The language server in Neovim, from version 0.7 on. `g:tfdeploy_command` is the list of words that starts it.
local M = {}

local client

--- Attach the current buffer to the server, which is started for the first one.
function M.attach()
  if not client or vim.lsp.client_is_stopped(client) then
    client = vim.lsp.start_client({
      name = "tfdeploy",
      cmd = vim.g.tfdeploy_command or { "tfdeploy", "lsp" },
      root_dir = vim.fn.getcwd(),
    })
  end
  if client then
    vim.lsp.buf_attach_client(0, client)
  end
end

return M
